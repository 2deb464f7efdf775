/** Arrays of bytes that the native module may read. */

import { types } from 'node:util';

import type { Key } from './native';
import { messageOf, shown, wrongType } from './errors';

type Getter<T> = (this: unknown) => T;

/** Returns a getter of a built-in class. A subclass or an object may override the property. */
function getterOf<T>(prototype: object, name: string): Getter<T> {
    return Object.getOwnPropertyDescriptor(prototype, name)!.get as Getter<T>;
}

const typedArray = Object.getPrototypeOf(Uint8Array.prototype) as object;
const bufferOfArray = getterOf<ArrayBufferLike>(typedArray, 'buffer');
const offsetOfArray = getterOf<number>(typedArray, 'byteOffset');
const lengthOfArray = getterOf<number>(typedArray, 'byteLength');
const bufferOfView = getterOf<ArrayBufferLike>(DataView.prototype, 'buffer');
const offsetOfView = getterOf<number>(DataView.prototype, 'byteOffset');
const lengthOfView = getterOf<number>(DataView.prototype, 'byteLength');

/**
 * Returns an array whose memory no other thread changes. The native module reads it during a call,
 * when no JavaScript of this thread can change it either.
 */
export function ownBytes(array: Uint8Array): Uint8Array {
    const buffer = bufferOfArray.call(array);
    const length = lengthOfArray.call(array);
    if (length === 0) checkAttached(array);
    if (!types.isSharedArrayBuffer(buffer)) return array;
    return Buffer.from(new Uint8Array(buffer, offsetOfArray.call(array), length));
}

/** Refuses an array whose buffer was transferred, or shrunk so that the array is outside of it. */
function checkAttached(array: Uint8Array): void {
    whileAttached(() => Uint8Array.prototype.at.call(array, 0));
}

/** Returns the result of a read, which throws an error if the memory is gone. */
function whileAttached<T>(read: () => T): T {
    try {
        return read();
    } catch (error) {
        throw wrongType(`the bytes are gone: ${messageOf(error)}`);
    }
}

/** Returns a key as the native module reads it. */
export function nativeKey(key: Key): Key {
    if (typeof key === 'string') return key;
    if (!types.isUint8Array(key)) throw wrongType(`a key is a string or a Uint8Array, found ${shown(key)}`);
    return ownBytes(key);
}

/** Returns a prefix as the native module reads it. */
export function nativePrefix(prefix: Key): Key {
    if (typeof prefix === 'string') return prefix;
    if (types.isUint8Array(prefix)) return ownBytes(prefix);
    throw wrongType(`a prefix is a string or a Uint8Array, found ${shown(prefix)}`);
}

/** Returns the bytes of a view or an `ArrayBuffer`; undefined for other values. */
export function bytesOf(value: object): Uint8Array | undefined {
    if (types.isUint8Array(value)) return ownBytes(value);
    if (types.isAnyArrayBuffer(value)) return ownBytes(whileAttached(() => new Uint8Array(value)));
    if (!ArrayBuffer.isView(value)) return undefined;
    return ownBytes(whileAttached(() => bytesOfView(value)));
}

function bytesOfView(view: ArrayBufferView): Uint8Array {
    if (types.isDataView(view)) {
        return new Uint8Array(bufferOfView.call(view), offsetOfView.call(view), lengthOfView.call(view));
    }
    return new Uint8Array(bufferOfArray.call(view), offsetOfArray.call(view), lengthOfArray.call(view));
}

/** Returns several keys as an array. The characters of a string are hardly meant. */
export function severalKeys<K extends Key>(keys: Iterable<K>): K[] {
    if (typeof keys !== 'string') return [...keys];
    throw wrongType(`several keys are an array or another iterable, found ${shown(keys)}`);
}
