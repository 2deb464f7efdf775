/** One connection to a server: it sends requests together, and gives each its response. */

import net from 'node:net';
import { performance } from 'node:perf_hooks';
import tls from 'node:tls';

import { failure, shown, type LarderError } from '../errors';
import { Pending, ReplyParser, Shape } from './protocol';
import type { Address } from './servers';

/** What connections need of the options of a client. */
export interface ConnectionOptions {
    readonly timeout: number;
    readonly connectTimeout: number;
    readonly maxValue: number;
    readonly maxPending: number;
    readonly maxQueued: number;
    readonly tls: tls.ConnectionOptions | undefined;
    readonly login: string | undefined;
}

/** What a connection reports. */
export interface ConnectionEvents {
    /** The server accepts requests. */
    ready(): void;
    /** The connection is closed. `isFault` is true if the server could not be reached, or hangs. */
    closed(error: Error, isFault: boolean): void;
}

/** The memory into which all connections of this thread receive: each parses it immediately. */
const received = Buffer.allocUnsafeSlow(64 * 1024);

/** Larger requests are not copied into one piece before they are sent. */
const JOINED_BYTES_MAX = 64 * 1024;

const KEEP_ALIVE_MILLIS = 60_000;
const OPAQUE_END = 1_000_000;

export class Connection {
    readonly #address: Address;
    readonly #options: ConnectionOptions;
    readonly #events: ConnectionEvents;
    readonly #socket: net.Socket;
    readonly #parser: ReplyParser;
    readonly #connectTimer: NodeJS.Timeout;
    readonly #waiting = new Queue();
    /** The requests to send: pieces, and text after them. */
    #pieces: (string | Buffer)[] = [];
    #text = '';
    #queued = 0;
    #opaque = 0;
    #isReady = false;
    #isBlocked = false;
    #isFlushDue = false;
    #timer: NodeJS.Timeout | undefined;
    #onIdle: (() => void) | undefined;
    /** Why the connection is closed; undefined while it is open. */
    #closedBy: Error | undefined;

    constructor(address: Address, options: ConnectionOptions, events: ConnectionEvents) {
        this.#address = address;
        this.#options = options;
        this.#events = events;
        this.#parser = new ReplyParser(this.#waiting, options.maxValue);
        this.#socket = this.#connect();
        const { connectTimeout } = options;
        this.#connectTimer = setTimeout(() => {
            const { name } = address;
            const message = `${name} did not accept a connection within ${connectTimeout} ms`;
            this.#close(failure('ERR_LARDER_TIMEOUT', message), true);
        }, connectTimeout);
    }

    get isOpen(): boolean {
        return this.#closedBy === undefined;
    }

    /**
     * Sends a request: the words before the key, the key, and those after it, which include the
     * value of a store. The requests of one turn of the event loop are sent together.
     */
    send(
        pending: Pending,
        before: string,
        key: string | Buffer,
        after: string,
        body?: string | Buffer,
    ): void {
        const length = before.length + key.length + after.length + (body?.length ?? 0);
        this.#checkRoom(length);
        this.#queued += length;
        let end = '\r\n';
        if (pending.shape === Shape.meta) {
            pending.opaque = this.#opaque;
            end = ` O${this.#opaque}\r\n`;
            this.#opaque = (this.#opaque + 1) % OPAQUE_END;
        }
        if (typeof key === 'string') this.#text += before + key + after + end;
        else {
            this.#text += before;
            this.#push(key);
            this.#text += after + end;
        }
        if (typeof body === 'string') this.#text += `${body}\r\n`;
        else if (body !== undefined) {
            this.#push(body);
            this.#text += '\r\n';
        }
        this.#wait(pending);
        if (this.#isReady && !this.#isFlushDue) {
            this.#isFlushDue = true;
            process.nextTick(flush, this);
        }
    }

    /** Closes the connection when all requests have their responses. */
    end(): Promise<void> {
        if (!this.isOpen) return Promise.resolve();
        return new Promise((resolve) => {
            this.#onIdle = () => {
                this.destroy();
                resolve();
            };
            if (this.#waiting.first() === undefined) this.#onIdle();
        });
    }

    /** Closes the connection; requests in flight fail. */
    destroy(): void {
        this.#close(failure('ERR_LARDER_CLOSED', 'the client was closed'), false);
    }

    /** @internal Sends what is queued. */
    flush(): void {
        this.#isFlushDue = false;
        if (!this.#isReady || this.#isBlocked || !this.isOpen || this.#queued === 0) return;
        const pieces = this.#pieces;
        const text = this.#text;
        const length = this.#queued;
        this.#pieces = [];
        this.#text = '';
        this.#queued = 0;
        if (pieces.length === 0) {
            this.#isBlocked = !this.#socket.write(text);
            return;
        }
        pieces.push(text);
        if (length <= JOINED_BYTES_MAX) {
            const buffers = pieces.map((piece) =>
                typeof piece === 'string' ? Buffer.from(piece) : piece,
            );
            this.#isBlocked = !this.#socket.write(Buffer.concat(buffers));
            return;
        }
        this.#socket.cork();
        for (const piece of pieces) this.#isBlocked = !this.#socket.write(piece);
        this.#socket.uncork();
    }

    #connect(): net.Socket {
        const { host, port, path } = this.#address;
        const target = path === undefined ? { host: host!, port: port! } : { path };
        const secure = path === undefined ? this.#options.tls : undefined;
        let socket: net.Socket;
        if (secure === undefined) {
            // A connection without TLS receives into one buffer; the types lack its option.
            const onread = {
                buffer: received,
                callback: (length: number) => this.#receive(received.subarray(0, length)),
            };
            socket = net.connect({ ...target, onread } as net.NetConnectOpts);
            socket.once('connect', () => this.#connected());
        } else {
            const servername = net.isIP(host!) === 0 ? { servername: host! } : {};
            socket = tls.connect({ ...target, ...servername, ...secure });
            socket.once('secureConnect', () => this.#connected());
            socket.on('data', (data: Buffer) => this.#receive(data));
        }
        socket.setNoDelay(true);
        socket.setKeepAlive(true, KEEP_ALIVE_MILLIS);
        socket.on('drain', () => {
            this.#isBlocked = false;
            this.flush();
        });
        socket.on('error', (error) => this.#close(this.#lost(error), !this.#isReady));
        socket.on('end', () => this.#close(this.#lost(), !this.#isReady));
        socket.on('close', () => this.#close(this.#lost(), !this.#isReady));
        return socket;
    }

    #connected(): void {
        const { login } = this.#options;
        if (login === undefined) {
            this.#ready();
            return;
        }
        const pending = new Pending(
            Shape.line,
            ({ text }) => text,
            (text: string) => (text === 'STORED' ? this.#ready() : this.#refused(shown(text))),
            (error) => this.#refused((error as Error).message),
        );
        // The timer of the connection limits the login.
        pending.deadline = Infinity;
        this.#waiting.unshift(pending);
        this.#socket.write(login);
    }

    #ready(): void {
        clearTimeout(this.#connectTimer);
        this.#isReady = true;
        this.#events.ready();
        this.#setIdle();
        this.flush();
    }

    #refused(reason: string): void {
        const error = failure(
            'ERR_LARDER_SERVER',
            `${this.#address.name} refused the login: ${reason}`,
        );
        this.#close(error, true);
    }

    #receive(data: Buffer): boolean {
        if (!this.isOpen) return false;
        try {
            this.#parser.feed(data);
        } catch (error) {
            this.#close(error as LarderError, false);
            return false;
        }
        this.#setIdle();
        return true;
    }

    #wait(pending: Pending): void {
        const { timeout } = this.#options;
        if (this.#isReady && this.#waiting.first() === undefined) this.#socket.ref();
        pending.deadline = performance.now() + timeout;
        this.#waiting.push(pending);
        if (this.#timer === undefined) this.#setTimer(timeout);
    }

    /** A connection without requests does not keep the process alive. */
    #setIdle(): void {
        if (this.#waiting.first() !== undefined || !this.#isReady) return;
        this.#socket.unref();
        this.#onIdle?.();
    }

    /** One timer serves all requests: it is set again for the oldest one when it fires. */
    #setTimer(millis: number): void {
        this.#timer = setTimeout(() => this.#checkDeadline(), millis).unref();
    }

    #checkDeadline(): void {
        this.#timer = undefined;
        const deadline = this.#waiting.first()?.deadline;
        if (deadline === undefined || !this.isOpen) return;
        const left = Math.min(deadline - performance.now(), this.#options.timeout);
        if (left > 0) {
            this.#setTimer(Math.max(1, Math.ceil(left)));
            return;
        }
        const { name } = this.#address;
        const message = `${name} has not responded within ${this.#options.timeout} ms`;
        this.#close(failure('ERR_LARDER_TIMEOUT', message), true);
    }

    #checkRoom(length: number): void {
        const { maxPending, maxQueued } = this.#options;
        if (this.#closedBy !== undefined) throw this.#closedBy;
        const { name } = this.#address;
        if (this.#waiting.length >= maxPending) {
            throw failure(
                'ERR_LARDER_UNAVAILABLE',
                `${maxPending} requests to ${name} wait for responses already`,
            );
        }
        const queued = this.#queued + this.#socket.writableLength;
        if (queued > 0 && queued + length > maxQueued) {
            throw failure(
                'ERR_LARDER_UNAVAILABLE',
                `${queued} bytes wait to be sent to ${name} already`,
            );
        }
    }

    #push(bytes: Buffer): void {
        this.#pieces.push(this.#text, bytes);
        this.#text = '';
    }

    #lost(cause?: Error): LarderError {
        const { name } = this.#address;
        const what = this.#isReady
            ? `the connection to ${name} was lost`
            : `${name} cannot be reached`;
        const message =
            cause === undefined ? `${what}: the server closed it` : `${what}: ${cause.message}`;
        return failure('ERR_LARDER_UNAVAILABLE', message, { cause });
    }

    #close(error: LarderError, isFault: boolean): void {
        if (this.#closedBy !== undefined) return;
        this.#closedBy = error;
        clearTimeout(this.#connectTimer);
        clearTimeout(this.#timer);
        this.#pieces = [];
        this.#text = '';
        this.#queued = 0;
        this.#socket.destroy();
        this.#events.closed(error, isFault);
        for (
            let pending = this.#waiting.first();
            pending !== undefined;
            pending = this.#waiting.first()
        ) {
            this.#waiting.shift();
            pending.fail(error);
        }
        this.#onIdle?.();
    }
}

function flush(connection: Connection): void {
    connection.flush();
}

/** Requests in the order in which they were sent. */
class Queue {
    #items: (Pending | undefined)[] = [];
    #head = 0;

    get length(): number {
        return this.#items.length - this.#head;
    }

    first(): Pending | undefined {
        return this.#items[this.#head];
    }

    push(pending: Pending): void {
        this.#items.push(pending);
    }

    unshift(pending: Pending): void {
        this.#items.splice(this.#head, 0, pending);
    }

    shift(): void {
        this.#items[this.#head++] = undefined;
        if (this.#head === this.#items.length) {
            this.#items.length = 0;
            this.#head = 0;
        } else if (this.#head >= 1024 && 2 * this.#head >= this.#items.length) {
            this.#items = this.#items.slice(this.#head);
            this.#head = 0;
        }
    }
}
