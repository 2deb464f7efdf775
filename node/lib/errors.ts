/**
 * The codes of Larder's errors: an `Error`, `TypeError` or `RangeError` has one of them as `code`.
 *
 * | code | meaning |
 * |---|---|
 * | `ERR_LARDER_ARGUMENT` | an argument has a wrong type or value (`TypeError`, `RangeError`) |
 * | `ERR_LARDER_CLOSED` | the cache or the client was closed |
 * | `ERR_LARDER_CODEC` | a value cannot be encoded, or its bytes cannot be decoded |
 * | `ERR_LARDER_LOAD` | the loader of another process failed; `loader` is the name of its error |
 * | `ERR_LARDER_NO_CAS` | the cache was created without cas tokens |
 * | `ERR_LARDER_NOT_A_NUMBER` | the value is no counter |
 * | `ERR_LARDER_OPEN` | the cache cannot be opened |
 * | `ERR_LARDER_PROTOCOL` | a server sent something that is no response |
 * | `ERR_LARDER_RECURSIVE` | a loader waits for itself |
 * | `ERR_LARDER_SERVER` | a server refused a request |
 * | `ERR_LARDER_STORE` | there is no memory for the item, or the cache is full and does not evict |
 * | `ERR_LARDER_TIMEOUT` | a server did not respond in time |
 * | `ERR_LARDER_TOO_LARGE` | the item exceeds the limit of the cache (`RangeError`) |
 * | `ERR_LARDER_UNAVAILABLE` | a server cannot be reached, or closed the connection |
 * | `ERR_LARDER_UNTRUSTED` | other users can write to the file of the cache |
 */
export type ErrorCode =
    | 'ERR_LARDER_ARGUMENT'
    | 'ERR_LARDER_CLOSED'
    | 'ERR_LARDER_CODEC'
    | 'ERR_LARDER_LOAD'
    | 'ERR_LARDER_NO_CAS'
    | 'ERR_LARDER_NOT_A_NUMBER'
    | 'ERR_LARDER_OPEN'
    | 'ERR_LARDER_PROTOCOL'
    | 'ERR_LARDER_RECURSIVE'
    | 'ERR_LARDER_SERVER'
    | 'ERR_LARDER_STORE'
    | 'ERR_LARDER_TIMEOUT'
    | 'ERR_LARDER_TOO_LARGE'
    | 'ERR_LARDER_UNAVAILABLE'
    | 'ERR_LARDER_UNTRUSTED';

/** An error with a code of Larder. */
export interface LarderError extends Error {
    code: ErrorCode;
}

/** Returns true if `error` has the given code, or without a code, if it is an error of Larder. */
export function isLarderError(error: unknown, code?: ErrorCode): error is LarderError {
    if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return false;
    return code === undefined ? error.code.startsWith('ERR_LARDER_') : error.code === code;
}

type ErrorClass = new (message: string, options?: ErrorOptions) => Error;

/** Makes an error with a code. */
export function failure(
    code: ErrorCode,
    message: string,
    { base = Error, cause }: { base?: ErrorClass; cause?: unknown } = {},
): LarderError {
    const error = cause === undefined ? new base(message) : new base(message, { cause });
    return Object.assign(error, { code });
}

/** Makes the error for an argument of a wrong type. */
export function wrongType(message: string): LarderError {
    return failure('ERR_LARDER_ARGUMENT', message, { base: TypeError });
}

/** Makes the error for an argument of a wrong value. */
export function wrongValue(message: string): LarderError {
    return failure('ERR_LARDER_ARGUMENT', message, { base: RangeError });
}

/** Returns the message of a thrown value, which may be anything. */
export function messageOf(thrown: unknown): string {
    if (thrown instanceof Error) return thrown.message;
    return typeof thrown === 'string' ? thrown : shown(thrown);
}

/** Returns a value for an error message. */
export function shown(value: unknown): string {
    if (typeof value === 'string') return JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}…` : value);
    if (typeof value === 'function') return 'a function';
    if (typeof value === 'object' && value !== null) return nameOfClass(value);
    return typeof value === 'bigint' ? `${value}n` : String(value);
}

function nameOfClass(value: object): string {
    try {
        const name: unknown = value.constructor.name;
        if (typeof name === 'string' && name !== '') return name;
    } catch {
        // An object without a prototype, a Proxy or a getter that throws.
    }
    return 'an object';
}

/** True if a cache has no room for an item: it is too large, or there is no memory for it. */
export function isNoRoom(error: unknown): boolean {
    return isLarderError(error, 'ERR_LARDER_STORE') || isLarderError(error, 'ERR_LARDER_TOO_LARGE');
}
