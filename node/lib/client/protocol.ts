/**
 * memcached's meta protocol without I/O: parses responses, and gives each to the request that waits
 * for it.
 *
 * A server responds in the order of the requests. In addition, each meta request has a number, the
 * opaque, which the response repeats. A response with another number, or of a form that the request
 * cannot have, is an error after which the connection must be closed: no request receives the
 * response of another one.
 */

import { failure, shown, type LarderError } from '../errors';

/** The first two bytes of a response to a meta request. */
export const enum Code {
    value = 0x5641, // VA
    done = 0x4844, // HD
    miss = 0x454e, // EN
    notFound = 0x4e46, // NF
    notStored = 0x4e53, // NS
    exists = 0x4558, // EX
}

/** The form of the response that a request expects. */
export const enum Shape {
    meta,
    /** Any line. */
    line,
    /** Lines of statistics up to an end. */
    lines,
}

/** Longest line of a response, in bytes. Those of servers have less than 2 KiB. */
const LINE_BYTES_MAX = 16 * 1024;
/** Most lines of statistics in a response: `stats cachedump` has up to 2 MiB of them. */
const LINES_MAX = 1_000_000;
/** Memory for a value grows from this size with the bytes that arrive. */
const FIRST_ROOM_BYTES = 1024 * 1024;
/** Lines up to this length are searched without a call of the runtime. */
const NEAR_BYTES = 64;

const LF = 10;
const CR = 13;
const BLANK = 32;
const ZERO = 48;

/** A response. Its bytes are valid only while a request receives it. */
export class Reply {
    code: Code = Code.done;
    /** The client flags, of `f`. */
    flags = 0;
    /** The remaining seconds, of `t`; -1 for an item that does not expire. */
    secondsLeft = -1;
    /** The cas token, of `c`, as digits. */
    cas = '';
    /** This client received the recache token. */
    isWon = false;
    /** Another client received the recache token. */
    isLost = false;
    /** The item is marked stale. */
    isStale = false;
    buffer: Buffer = Buffer.alloc(0);
    start = 0;
    end = 0;
    /** The line, or the lines of statistics. */
    text = '';
    lines: string[] = [];
    opaque = -1;

    /** Returns the bytes of the value as text. */
    valueText(): string {
        return this.buffer.toString('latin1', this.start, this.end);
    }

    /** True for an item that another client creates now: see `loads.ts`. */
    get isPlaceholder(): boolean {
        return this.start === this.end && this.flags === 0 && (this.isWon || this.isLost);
    }
}

/** A request that waits for its response. */
export class Pending {
    /** When the response must have arrived, by the clock `performance.now`. */
    deadline = 0;
    /** Called when the outcome is known, before the caller receives it. */
    onEnd: (() => void) | undefined;

    constructor(
        readonly shape: Shape,
        /** Makes the result. May throw; an error with the code PROTOCOL ends the connection. */
        readonly parse: (reply: Reply) => unknown,
        readonly resolve: (value: never) => void,
        readonly reject: (error: unknown) => void,
    ) {}

    /** The number of the request; -1 for requests without one. */
    opaque = -1;

    settle(reply: Reply): void {
        const value = this.parse(reply);
        this.onEnd?.();
        this.resolve(value as never);
    }

    fail(error: unknown): void {
        this.onEnd?.();
        this.reject(error);
    }
}

/** The requests that wait, in the order of their responses. */
export interface Waiting {
    /** Returns the request for the next response. */
    first(): Pending | undefined;
    /** Removes that request. */
    shift(): void;
}

/** Parses the bytes of one connection, which arrive in pieces of any length. */
export class ReplyParser {
    readonly #waiting: Waiting;
    readonly #maxValue: number;
    readonly #reply = new Reply();
    /** The beginning of a line that has not arrived completely. */
    #tail: Buffer | undefined;
    /** The part of a value that has arrived, if it has not arrived completely. */
    #room: Buffer | undefined;
    #filled = 0;
    /** The length of that value, with its end of line. */
    #wanted = 0;
    #lines: string[] = [];

    constructor(waiting: Waiting, maxValue: number) {
        this.#waiting = waiting;
        this.#maxValue = maxValue;
    }

    /** Parses a piece. Throws an error with the code PROTOCOL for bytes that are no response. */
    feed(piece: Buffer): void {
        let data = piece;
        let pos = 0;
        if (this.#tail !== undefined) {
            data = Buffer.concat([this.#tail, piece]);
            this.#tail = undefined;
        }
        while (pos < data.length) {
            if (this.#room !== undefined) {
                pos = this.#resumeValue(this.#room, data, pos);
                continue;
            }
            const end = lineEnd(data, pos);
            if ((end < 0 ? data.length : end) - pos > LINE_BYTES_MAX) {
                throw invalid(`a line has more than ${LINE_BYTES_MAX} bytes`);
            }
            if (end < 0) {
                // A copy, because the connection reuses its buffer.
                this.#tail = Buffer.from(data.subarray(pos));
                return;
            }
            if (end === pos || data[end - 1] !== CR) throw unexpected(data, pos, end);
            pos = this.#line(data, pos, end - 1);
        }
    }

    /** Parses a line, and a value that follows. Returns the position after them. */
    #line(data: Buffer, start: number, end: number): number {
        const pending = this.#waiting.first();
        if (pending === undefined) throw unexpected(data, start, end);
        const error = errorOf(data, start, end);
        if (error !== undefined) {
            this.#lines = [];
            this.#waiting.shift();
            pending.fail(error);
            return end + 2;
        }
        switch (pending.shape) {
            case Shape.meta:
                return this.#meta(pending, data, start, end);
            case Shape.line:
                this.#reply.text = data.toString('latin1', start, end);
                this.#settle(pending);
                return end + 2;
            default:
                this.#statistic(pending, data.toString('utf8', start, end));
                return end + 2;
        }
    }

    #meta(pending: Pending, data: Buffer, start: number, end: number): number {
        const reply = this.#reply;
        const code = (data[start]! << 8) | data[start + 1]!;
        let pos = start + 2;
        let length = 0;
        switch (code) {
            case Code.value:
                if (data[pos] !== BLANK) throw unexpected(data, start, end);
                pos = digitsEnd(data, pos + 1, end);
                length = numberOf(data, start + 3, pos);
                break;
            case Code.done:
            case Code.miss:
            case Code.notFound:
            case Code.notStored:
            case Code.exists:
                break;
            default:
                throw unexpected(data, start, end);
        }
        reply.code = code;
        this.#flags(data, pos, start, end);
        // Old versions of memcached respond to misses without flags.
        const isBare = code === Code.miss && pos === end;
        if (reply.opaque !== pending.opaque && !isBare) {
            throw invalid(
                `${shown(data.toString('latin1', start, end))} is the response to another request`,
            );
        }
        if (code === Code.value) return this.#value(pending, data, end + 2, length);
        reply.buffer = data;
        reply.start = reply.end = end;
        this.#settle(pending);
        return end + 2;
    }

    /** Parses the flags of a response: letters, some of which a number follows. */
    #flags(data: Buffer, from: number, start: number, end: number): void {
        const reply = this.#reply;
        reply.flags = 0;
        reply.secondsLeft = -1;
        reply.cas = '';
        reply.opaque = -1;
        reply.isWon = reply.isLost = reply.isStale = false;
        for (let pos = from; pos < end; ) {
            if (data[pos] !== BLANK || pos + 1 >= end) throw unexpected(data, start, end);
            const letter = data[pos + 1]!;
            const word = pos + 2;
            pos = wordEnd(data, word, end);
            switch (letter) {
                case 0x66: // f
                    reply.flags = numberOf(data, word, pos);
                    break;
                case 0x4f: // O
                    reply.opaque = numberOf(data, word, pos);
                    break;
                case 0x74: // t
                    reply.secondsLeft = data[word] === 0x2d ? -1 : numberOf(data, word, pos);
                    break;
                case 0x63: // c
                    if (digitsEnd(data, word, pos) !== pos || pos === word || pos - word > 20) {
                        throw unexpected(data, start, end);
                    }
                    reply.cas = data.toString('latin1', word, pos);
                    break;
                case 0x57: // W
                    reply.isWon = true;
                    break;
                case 0x5a: // Z
                    reply.isLost = true;
                    break;
                case 0x58: // X
                    reply.isStale = true;
                    break;
                case 0x62: // b
                    break;
                default:
                    throw unexpected(data, start, end);
            }
        }
    }

    #value(pending: Pending, data: Buffer, start: number, length: number): number {
        if (length > this.#maxValue) {
            throw invalid(
                `the server announces a value of ${length} bytes, expected up to ${this.#maxValue}`,
            );
        }
        const end = start + length;
        if (end + 2 <= data.length) {
            this.#deliver(pending, data, start, end);
            return end + 2;
        }
        this.#wanted = length + 2;
        // The server's length is not trusted: memory grows with the bytes that have arrived.
        this.#room = Buffer.allocUnsafeSlow(Math.min(this.#wanted, FIRST_ROOM_BYTES));
        this.#filled = 0;
        return this.#resumeValue(this.#room, data, start);
    }

    #resumeValue(room: Buffer, data: Buffer, start: number): number {
        const count = Math.min(this.#wanted - this.#filled, data.length - start);
        if (this.#filled + count > room.length) {
            const size = Math.min(this.#wanted, Math.max(2 * room.length, this.#filled + count));
            const larger = Buffer.allocUnsafeSlow(size);
            room.copy(larger, 0, 0, this.#filled);
            this.#room = room = larger;
        }
        data.copy(room, this.#filled, start, start + count);
        this.#filled += count;
        if (this.#filled === this.#wanted) {
            this.#room = undefined;
            this.#deliver(this.#waiting.first()!, room, 0, this.#wanted - 2);
        }
        return start + count;
    }

    #deliver(pending: Pending, data: Buffer, start: number, end: number): void {
        if (data[end] !== CR || data[end + 1] !== LF) {
            throw invalid(`a value does not end after ${end - start} bytes`);
        }
        const reply = this.#reply;
        reply.buffer = data;
        reply.start = start;
        reply.end = end;
        this.#settle(pending);
    }

    #statistic(pending: Pending, line: string): void {
        if (/^(STAT|ITEM|PREFIX) ./.test(line)) {
            if (this.#lines.push(line) > LINES_MAX) {
                throw invalid(`more than ${LINES_MAX} statistics`);
            }
            return;
        }
        if (line !== 'END' && line !== 'OK' && line !== 'RESET') throw invalid(shown(line));
        this.#reply.lines = this.#lines;
        this.#lines = [];
        this.#settle(pending);
    }

    /** Gives the response to its request. */
    #settle(pending: Pending): void {
        try {
            pending.settle(this.#reply);
        } catch (error) {
            if (isFatal(error)) throw error;
            pending.fail(error);
        }
        this.#waiting.shift();
    }
}

/** Makes the error for a response that a request cannot have. */
export function unexpectedReply(reply: Reply): LarderError {
    const code = String.fromCharCode(reply.code >> 8, reply.code & 0xff);
    return invalid(`${code} is no response to this request`);
}

/** Makes the error for bytes that are no response. */
export function invalid(what: string): LarderError {
    return failure('ERR_LARDER_PROTOCOL', `the server sent an invalid response: ${what}`);
}

function isFatal(error: unknown): boolean {
    return (error as LarderError).code === 'ERR_LARDER_PROTOCOL';
}

function unexpected(data: Buffer, start: number, end: number): LarderError {
    return invalid(shown(data.toString('latin1', start, Math.min(end, start + 80))));
}

/** Returns the error for a line that begins as one; undefined for other lines. */
function errorOf(data: Buffer, start: number, end: number): LarderError | undefined {
    // E, C or S, and R, L or E: no other response begins in this way.
    const [first, second] = [data[start], data[start + 1]];
    const isError =
        (first === 0x45 && second === 0x52) ||
        (first === 0x43 && second === 0x4c) ||
        (first === 0x53 && second === 0x45);
    if (!isError) return undefined;
    const line = data.toString('utf8', start, end);
    const [, kind, text] = /^(ERROR|CLIENT_ERROR|SERVER_ERROR):? ?(.*)$/.exec(line) ?? [];
    if (kind === undefined) throw unexpected(data, start, end);
    return serverError(text === '' ? 'it does not know the command' : text!);
}

function serverError(text: string): LarderError {
    const message = `the server refused the request: ${text}`;
    if (text.startsWith('object too large')) {
        return failure('ERR_LARDER_TOO_LARGE', message, { base: RangeError });
    }
    if (text.startsWith('out of memory') || text.startsWith('out of disk space')) {
        return failure('ERR_LARDER_STORE', message);
    }
    if (text.includes('non-numeric value')) return failure('ERR_LARDER_NOT_A_NUMBER', message);
    return failure('ERR_LARDER_SERVER', message);
}

function lineEnd(data: Buffer, from: number): number {
    const near = Math.min(data.length, from + NEAR_BYTES);
    for (let pos = from; pos < near; pos++) if (data[pos] === LF) return pos;
    return data.indexOf(LF, near);
}

function digitsEnd(data: Buffer, from: number, end: number): number {
    let pos = from;
    while (pos < end && data[pos]! >= ZERO && data[pos]! <= ZERO + 9) pos++;
    return pos;
}

function wordEnd(data: Buffer, from: number, end: number): number {
    let pos = from;
    while (pos < end && data[pos] !== BLANK) pos++;
    return pos;
}

/** Returns the number that the digits from `start` to `end` are. */
function numberOf(data: Buffer, start: number, end: number): number {
    if (end === start || end - start > 15) throw unexpected(data, start, end);
    let number = 0;
    for (let pos = start; pos < end; pos++) {
        const digit = data[pos]! - ZERO;
        if (digit < 0 || digit > 9) throw unexpected(data, start, end);
        number = number * 10 + digit;
    }
    return number;
}
