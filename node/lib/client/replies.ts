/** What the responses to the requests of a client mean. */

import { type LarderError, failure, isLarderError } from '../errors';
import { Code, type Reply, invalid, unexpectedReply } from './protocol';
import { exactInteger } from './values';

/** The statistics of a server. Values that are no exact numbers are text. */
export type ServerStats = Record<string, number | string>;

/** The outcomes of a request whose success is `HD`. */
export const enum Outcome {
    done,
    absent,
    notStored,
    exists,
}

/** Returns the outcome of a request that returns no value. */
export function outcome(reply: Reply): Outcome {
    switch (reply.code) {
        case Code.done:
            return Outcome.done;
        case Code.miss:
        case Code.notFound:
            return Outcome.absent;
        case Code.notStored:
            return Outcome.notStored;
        case Code.exists:
            return Outcome.exists;
        default:
            throw unexpectedReply(reply);
    }
}

/** True if the request succeeded. */
export function isDone(reply: Reply): boolean {
    return outcome(reply) === Outcome.done;
}

/** Returns the new value of a counter; undefined if it is absent. */
export function counter(reply: Reply): number | bigint | undefined {
    if (reply.code === Code.notFound) return undefined;
    const text = reply.code === Code.value ? reply.valueText().trimEnd() : '';
    if (!/^\d{1,20}$/.test(text)) throw unexpectedReply(reply);
    return exactInteger(text);
}

/** Returns the cas token of an item. */
export function token(reply: Reply): bigint {
    const cas = BigInt(reply.cas);
    if (cas === 0n) {
        throw failure('ERR_LARDER_NO_CAS', 'the items of the server have no cas tokens');
    }
    return cas;
}

/** Returns the flags of an item; undefined if it is absent. */
export function flagsOf(reply: Reply): number | undefined {
    return isDone(reply) ? reply.flags : undefined;
}

/** Returns the remaining time of an item in milliseconds; undefined if it is absent. */
export function millisLeft(reply: Reply): number | undefined {
    if (!isDone(reply)) return undefined;
    return reply.secondsLeft < 0 ? Infinity : reply.secondsLeft * 1000;
}

export function version(reply: Reply): string {
    if (!reply.text.startsWith('VERSION ')) throw invalid(JSON.stringify(reply.text));
    return reply.text.slice('VERSION '.length);
}

export function flushed(reply: Reply): void {
    if (reply.text !== 'OK') throw invalid(JSON.stringify(reply.text));
}

/** Returns the statistics in lines of the form `STAT name value`. */
export function statistics(reply: Reply): ServerStats {
    const stats: ServerStats = {};
    for (const line of reply.lines) {
        const [, name, value] = /^\w+ (\S+) ?(.*)$/.exec(line) ?? [];
        if (name === undefined) throw invalid(JSON.stringify(line));
        stats[name] = typed(value!);
    }
    return stats;
}

function typed(value: string): number | string {
    if (!/^-?\d+(\.\d+)?$/.test(value)) return value;
    const number = Number(value);
    return value.includes('.') || Number.isSafeInteger(number) ? number : value;
}

/** True for an error of a server that cannot be reached, or does not respond. */
export function isUnavailable(error: unknown): error is LarderError {
    return (
        isLarderError(error, 'ERR_LARDER_UNAVAILABLE') || isLarderError(error, 'ERR_LARDER_TIMEOUT')
    );
}

/** True if a server has no memory for an item. */
export function isNotStored(error: unknown): boolean {
    return isLarderError(error, 'ERR_LARDER_STORE') || isLarderError(error, 'ERR_LARDER_TOO_LARGE');
}

/** Returns the result of a promise, or rejects with the reason of the signal when it is aborted. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    if (signal === undefined) return promise;
    return new Promise((resolve, reject) => {
        const abort = (): void => reject(signal.reason);
        const done = (): void => signal.removeEventListener('abort', abort);
        signal.addEventListener('abort', abort);
        if (signal.aborted) abort();
        promise.finally(done).then(resolve, reject);
    });
}
