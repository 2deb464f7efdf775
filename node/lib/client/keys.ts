/** Keys as the words of a request. */

import { isUtf8 } from 'node:buffer';
import { types } from 'node:util';

import { ownBytes } from '../bytes';
import type { Key } from '../native';
import { shown, wrongType, wrongValue } from '../errors';
import { isWellFormed } from './values';

/** Longest key, and longest word of a request that is a key, in bytes. */
const KEY_BYTES_MAX = 250;
/** Longest key whose base64 fits into such a word. */
const ENCODED_KEY_BYTES_MAX = 186;

/** A key in a request. */
export interface WireKey {
    /** The word: text, or its bytes if they are not UTF-8. */
    readonly word: string | Buffer;
    /** The flags of the request that belong to the word. */
    readonly flags: '' | ' b';
}

const isPlain = /^[\x21-\x7e]{1,250}$/;
const hasNoWord = /[\x00-\x20\x7f]/;

/**
 * Returns the word for a key after a prefix. Keys with blanks and control characters are sent in
 * base64, as the meta commands of memcached allow.
 */
export function wireKey(prefix: string, key: Key): WireKey {
    if (typeof key === 'string') {
        const word = prefix + key;
        if (isPlain.test(word) && key !== '') return { word, flags: '' };
        checkText(key, 'key');
        return wordOf(Buffer.from(word), key.length);
    }
    if (!types.isUint8Array(key)) {
        throw wrongType(`a key is a string or a Uint8Array, found ${shown(key)}`);
    }
    return wordOf(Buffer.concat([Buffer.from(prefix), ownBytes(key)]), key.length);
}

/** Returns the prefix of a client. */
export function checkedPrefix(prefix: unknown): string {
    if (typeof prefix !== 'string') throw wrongType(`prefix is text, found ${shown(prefix)}`);
    checkText(prefix, 'prefix');
    if (Buffer.byteLength(prefix) >= KEY_BYTES_MAX) {
        throw wrongValue(
            `prefix has up to ${KEY_BYTES_MAX - 1} bytes, found ${Buffer.byteLength(prefix)}`,
        );
    }
    return prefix;
}

function wordOf(bytes: Buffer, keyLength: number): WireKey {
    if (keyLength === 0 || bytes.length > KEY_BYTES_MAX) {
        const found = keyLength === 0 ? 'an empty one' : `${bytes.length} with the prefix`;
        throw wrongValue(`a key has 1 to ${KEY_BYTES_MAX} bytes, found ${found}`);
    }
    const latin1 = bytes.toString('latin1');
    if (!hasNoWord.test(latin1)) {
        return { word: isUtf8(bytes) ? bytes.toString() : bytes, flags: '' };
    }
    if (bytes.length > ENCODED_KEY_BYTES_MAX) {
        throw wrongValue(
            'a key with blanks or control characters has up to ' +
                `${ENCODED_KEY_BYTES_MAX} bytes, found ${bytes.length} with the prefix`,
        );
    }
    return { word: bytes.toString('base64'), flags: ' b' };
}

function checkText(text: string, name: string): void {
    if (!isWellFormed(text)) {
        throw wrongValue(`the ${name} contains a lone surrogate, which UTF-8 cannot express`);
    }
}
