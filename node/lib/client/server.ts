/** A server of a client: its connections, and the pause after a fault. */

import { performance } from 'node:perf_hooks';

import { failure, isLarderError } from '../errors';
import { Connection, type ConnectionOptions } from './connection';
import { LocalReads } from './local';
import type { Pending } from './protocol';
import type { Address } from './servers';

export interface ServerOptions extends ConnectionOptions {
    readonly connections: number;
    readonly retryDelay: number;
    readonly local: boolean;
}

export class Server {
    readonly address: Address;
    /** Reads in the server's memory; undefined for a server that is not at a unix socket. */
    readonly local: LocalReads | undefined;
    readonly #options: ServerOptions;
    readonly #connections: (Connection | undefined)[];
    /** Until then, by the clock `performance.now`, requests fail without an attempt. */
    #pausedUntil = 0;
    #fault: Error | undefined;
    #isClosed = false;

    constructor(address: Address, options: ServerOptions) {
        this.address = address;
        this.#options = options;
        this.#connections = new Array<undefined>(options.connections).fill(undefined);
        if (address.path !== undefined && options.local) this.local = new LocalReads(address.path);
    }

    /**
     * Sends a request: see `Connection.send`. The requests of a key use the same connection, so
     * that the server executes them in their order. Throws an error if the server cannot be
     * reached.
     */
    send(
        pending: Pending,
        before: string,
        key: string | Buffer,
        after: string,
        body?: string | Buffer,
    ): void {
        const at = this.#connections.length === 1 ? 0 : placeOf(key) % this.#connections.length;
        this.#connection(at).send(pending, before, key, after, body);
    }

    /** Closes the connections when all requests in flight have their responses. */
    async close(): Promise<void> {
        this.#isClosed = true;
        this.local?.close();
        await Promise.all(this.#connections.map((connection) => connection?.end()));
    }

    /** Closes the connections; requests in flight fail. */
    destroy(): void {
        this.#isClosed = true;
        this.local?.close();
        for (const connection of this.#connections) connection?.destroy();
    }

    #connection(at: number): Connection {
        const connection = this.#connections[at];
        if (connection?.isOpen) return connection;
        if (this.#fault !== undefined) this.#checkPause(this.#fault);
        const made = new Connection(this.address, this.#options, {
            ready: () => {
                this.#fault = undefined;
                // The server may be another one than that whose memory is open.
                if (this.local?.readsMemory === false) this.local.renew();
            },
            closed: (error, isFault) => this.#closed(error, isFault),
        });
        this.#connections[at] = made;
        return made;
    }

    #closed(error: Error, isFault: boolean): void {
        if (this.#isClosed) return;
        this.local?.renew();
        if (!isFault) return;
        this.#fault = error;
        this.#pausedUntil = performance.now() + this.#options.retryDelay;
    }

    #checkPause(fault: Error): void {
        const left = Math.ceil(this.#pausedUntil - performance.now());
        if (left <= 0) return;
        const message = `${fault.message}; the next attempt is possible in ${left} ms`;
        const code = isLarderError(fault, 'ERR_LARDER_SERVER')
            ? fault.code
            : 'ERR_LARDER_UNAVAILABLE';
        throw failure(code, message, { cause: fault });
    }
}

/** Returns a number that depends on the key. */
function placeOf(key: string | Buffer): number {
    let place = 0;
    const from = Math.max(0, key.length - 8);
    for (let at = from; at < key.length; at++) {
        place = (31 * place + (typeof key === 'string' ? key.charCodeAt(at) : key[at]!)) >>> 0;
    }
    return place;
}
