/** Values of JavaScript as the bytes and flags of items, and back: the same as `src/value.rs`. */

import { isUtf8 } from 'node:buffer';

import { bytesOf } from '../bytes';
import { type Codec, Tag, decoded, encoded } from '../codec';
import { failure, shown, wrongType, wrongValue } from '../errors';

/** The bytes of a value, and its flags. Text is sent as UTF-8. */
export interface Encoded {
    bytes: string | Uint8Array;
    flags: number;
}

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;
const REPLACEMENT = '\uFFFD';

/** Makes bytes of a value. */
export function encodedValue(codec: Codec | null, value: unknown): Encoded {
    switch (typeof value) {
        case 'string':
            // JSON expresses a lone surrogate, UTF-8 does not.
            if (!isWellFormed(value)) return byCodec(codec, value);
            return { bytes: value, flags: Tag.text };
        case 'number':
            return encodedNumber(value);
        case 'boolean':
            return { bytes: value ? '1' : '', flags: Tag.boolean };
        case 'bigint':
            if (value < INT64_MIN || value > INT64_MAX) {
                throw wrongValue('a bigint has up to 64 bits; store a longer one as a string');
            }
            return { bytes: value.toString(), flags: Tag.integer };
        case 'object': {
            if (value === null) return { bytes: '', flags: Tag.null };
            const bytes = bytesOf(value);
            // A copy: the caller may change its bytes before they are sent.
            if (bytes !== undefined) return { bytes: Buffer.from(bytes), flags: Tag.bytes };
            return byCodec(codec, value);
        }
        default:
            throw wrongType(`a value is not ${shown(value)}; delete() removes an item`);
    }
}

/** Makes the value of the bytes from `start` to `end` of a buffer that others reuse. */
export function decodedValue(
    codec: Codec | null,
    buffer: Buffer,
    start: number,
    end: number,
    flags: number,
): unknown {
    switch (flags) {
        case Tag.bytes:
            return Buffer.from(buffer.subarray(start, end));
        case Tag.text:
            return decodedText(buffer, start, end);
        case Tag.integer:
            return decodedInteger(buffer.toString('latin1', start, end));
        case Tag.double:
            return decodedDouble(buffer.toString('latin1', start, end));
        case Tag.boolean:
            return end - start === 1 && buffer[start] === 0x31;
        case Tag.null:
            return null;
        default:
            return decoded(codec, Buffer.from(buffer.subarray(start, end)), flags);
    }
}

/** Returns an integer as a number if it is exact, else as a bigint. */
export function exactInteger(digits: string): number | bigint {
    const number = Number(digits);
    return Number.isSafeInteger(number) ? number : BigInt(digits);
}

/** True if UTF-8 can express a string. */
export function isWellFormed(text: string): boolean {
    return !/\p{Surrogate}/u.test(text);
}

function encodedNumber(value: number): Encoded {
    if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
        return { bytes: String(value), flags: Tag.integer };
    }
    return { bytes: Object.is(value, -0) ? '-0.0' : String(value), flags: Tag.double };
}

function byCodec(codec: Codec | null, value: unknown): Encoded {
    const bytes = encoded(codec, value);
    return { bytes: typeof bytes === 'string' ? bytes : Buffer.from(bytes), flags: codec!.tag };
}

function decodedText(buffer: Buffer, start: number, end: number): string {
    const text = buffer.toString('utf8', start, end);
    if (text.includes(REPLACEMENT) && !isUtf8(buffer.subarray(start, end))) {
        throw damaged('text in UTF-8');
    }
    return text;
}

function decodedInteger(text: string): number | bigint {
    // memcached adds blanks if a decrement makes a number shorter.
    const digits = /^[+-]?(\d{1,39}) *$/.test(text) ? text.trimEnd() : undefined;
    if (digits === undefined) throw damaged('an integer');
    return exactInteger(digits.startsWith('+') ? digits.slice(1) : digits);
}

const NO_NUMBERS = new Map([
    ['inf', Infinity],
    ['infinity', Infinity],
    ['nan', NaN],
]);

function decodedDouble(text: string): number {
    const [, sign, magnitude] = /^([+-]?)([\d.][\d.e+-]*|inf|infinity|nan) *$/i.exec(text) ?? [];
    if (magnitude === undefined) throw damaged('a number');
    const number = NO_NUMBERS.get(magnitude.toLowerCase()) ?? Number(magnitude);
    if (Number.isNaN(number) && magnitude.toLowerCase() !== 'nan') throw damaged('a number');
    return sign === '-' ? -number : number;
}

function damaged(kind: string): Error {
    return failure('ERR_LARDER_CODEC', `the value is not ${kind}, although its flags say so`);
}
