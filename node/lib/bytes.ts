/** Arrays of bytes that the native module may read. */

import { types } from 'node:util';

import type { Key } from './native';
import { shown, wrongType } from './errors';

/**
 * Returns an array whose memory no other thread changes. The native module reads it during a call,
 * when no JavaScript of this thread can change it either.
 */
export function ownBytes(array: Uint8Array): Uint8Array {
    if (array.byteLength === 0) checkAttached(array);
    return types.isSharedArrayBuffer(array.buffer) ? Buffer.from(array) : array;
}

/** Refuses an array whose buffer was transferred, or shrunk so that the array is outside of it. */
function checkAttached(array: Uint8Array): void {
    try {
        Uint8Array.prototype.at.call(array, 0);
    } catch (error) {
        throw wrongType(`the bytes are gone: ${(error as Error).message}`);
    }
}

/** Returns a key as the native module reads it. */
export function nativeKey(key: Key): Key {
    if (typeof key === 'string') return key;
    if (!types.isUint8Array(key)) throw wrongType(`a key is a string or a Uint8Array, found ${shown(key)}`);
    return ownBytes(key);
}

/** Returns the bytes of a view or an `ArrayBuffer`; undefined for other values. */
export function bytesOf(value: object): Uint8Array | undefined {
    if (types.isUint8Array(value)) return ownBytes(value);
    if (ArrayBuffer.isView(value)) {
        return ownBytes(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
    }
    return types.isAnyArrayBuffer(value) ? ownBytes(new Uint8Array(value)) : undefined;
}
