/** How values that are neither text, bytes nor numbers become bytes, and back. */

import { isUtf8 } from 'node:buffer';
import { types } from 'node:util';

import { ownBytes } from './bytes';
import { failure, isLarderError, messageOf, shown, wrongType, wrongValue } from './errors';

/**
 * Makes bytes of values, and values of bytes.
 *
 * `tag` is the number by which the programs of all languages recognize the format: 6 is JSON, 7
 * MessagePack. Other formats take 14 or 15. A program that reads a value with another tag than that
 * of its codec gets an error, not a wrong value.
 */
export interface Codec {
    readonly tag: number;
    /** Returns a string, which is stored as UTF-8, or bytes. */
    encode(value: unknown): Uint8Array | string;
    /** Makes the value of the bytes. The Buffer is the caller's own. */
    decode(bytes: Buffer): unknown;
}

/** The tags of all languages: `LARDER_TAG_…` in larder.h. */
export const enum Tag {
    bytes = 0,
    integer = 1,
    double = 2,
    boolean = 3,
    php = 4,
    igbinary = 5,
    json = 6,
    messagePack = 7,
    null = 8,
    phpArray = 9,
    text = 11,
    pickle = 12,
    signedPickle = 13,
}

/** The tags that a codec can have, with the names of their formats. */
const FORMATS = new Map<number, string>([
    [Tag.php, 'serialized by PHP'],
    [Tag.igbinary, 'serialized by igbinary'],
    [Tag.json, 'JSON'],
    [Tag.messagePack, 'MessagePack'],
    [Tag.phpArray, 'an array of PHP'],
    [Tag.pickle, 'pickled by Python'],
    [Tag.signedPickle, 'pickled by Python'],
    [14, 'of another codec'],
    [15, 'of another codec'],
]);

/** JSON, as the other languages store it. */
export const json: Codec = {
    tag: Tag.json,
    encode(value) {
        if (typeof value === 'object' && value !== null && isLostInJson(value)) {
            throw wrongType(`${shown(value)} has no form in JSON: pass its contents, or another codec`);
        }
        const text = JSON.stringify(value) as string | undefined;
        if (text === undefined) throw wrongType(`a value is not ${shown(value)}: JSON cannot express it`);
        return text;
    },
    decode(bytes) {
        return JSON.parse(bytes.toString()) as unknown;
    },
};

/** True for objects that JSON writes as `{}`, although they have contents. */
function isLostInJson(value: object): boolean {
    return types.isPromise(value) || types.isMap(value) || types.isSet(value) || types.isRegExp(value);
}

/** Returns the codec for an option; null for none. */
export function codecOf(option: Codec | 'json' | null | undefined): Codec | null {
    if (option === undefined || option === 'json') return json;
    if (option === null) return null;
    const { tag, encode, decode } = Object(option) as Partial<Codec>;
    if (typeof encode !== 'function' || typeof decode !== 'function') {
        throw wrongType(`codec is 'json', null or an object with tag, encode and decode, found ${shown(option)}`);
    }
    if (tag === undefined || !FORMATS.has(tag)) {
        throw wrongValue(`the tag of a codec is one of ${[...FORMATS.keys()].join(', ')}, found ${shown(tag)}`);
    }
    return option;
}

/** Makes the bytes of a value by the codec of a cache. */
export function encoded(codec: Codec | null, value: unknown): Uint8Array | string {
    if (codec === null) {
        throw wrongType(`a value is a string, a Uint8Array, a number, a boolean or null, found ${shown(value)}`);
    }
    let bytes: unknown;
    try {
        bytes = codec.encode(value);
    } catch (error) {
        if (isLarderError(error)) throw error;
        throw failure('ERR_LARDER_CODEC', `the value cannot be encoded: ${messageOf(error)}`, { cause: error });
    }
    if (typeof bytes !== 'string' && !types.isUint8Array(bytes)) {
        throw wrongType(`encode of a codec returns a string or a Uint8Array, found ${shown(bytes)}`);
    }
    return typeof bytes === 'string' ? bytes : ownBytes(bytes);
}

/** Makes the value of bytes and flags that are not of a plain type. */
export function decoded(codec: Codec | null, bytes: Buffer, flags: number): unknown {
    const ours = codec !== null && codec.tag === flags ? codec : flags === Tag.json ? json : null;
    if (ours === null) {
        const format = FORMATS.get(flags) ?? `stored with the flags ${flags}`;
        throw failure('ERR_LARDER_CODEC', `the value is ${format}, and the cache has no codec for that`);
    }
    try {
        return ours.decode(bytes);
    } catch (error) {
        throw failure('ERR_LARDER_CODEC', `the value cannot be decoded: ${messageOf(error)}`, {
            cause: error,
        });
    }
}

/** Makes the value of a copy that is too long for the slab. */
export function decodedLong(codec: Codec | null, bytes: Buffer, flags: number): unknown {
    if (flags === Tag.bytes) return bytes;
    if (flags !== Tag.text) return decoded(codec, bytes, flags);
    if (!isUtf8(bytes)) throw failure('ERR_LARDER_CODEC', 'the value is not text in UTF-8, although its flags say so');
    return bytes.toString();
}
