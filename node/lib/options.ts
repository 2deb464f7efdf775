/** Options that several classes take: sizes, times to live. */

import { shown, wrongType, wrongValue } from './errors';

const UNITS = new Map([
    ['', 1],
    ['k', 2 ** 10],
    ['m', 2 ** 20],
    ['g', 2 ** 30],
    ['t', 2 ** 40],
]);

/** Returns a number of bytes: `67108864`, or `'64M'` with 1 M = 1,048,576. */
export function sizeOf(size: number | string, name: string): number {
    const parts = /^(\d+)\s*([kmgt]?)(?:i?b)?$/i.exec(typeof size === 'object' ? '' : String(size).trim());
    const bytes = parts === null ? NaN : Number(parts[1]) * (UNITS.get(parts[2]!.toLowerCase()) ?? NaN);
    if (!Number.isSafeInteger(bytes)) {
        throw wrongValue(`${name} is ${shown(size)}, expected a number of bytes, or text such as '64M'`);
    }
    return bytes;
}

/** The longest time to live: the native module takes 32 bits. */
export const SECS_MAX = 2 ** 32 - 1;

/**
 * Returns a time to live as whole seconds, rounded up; 0 stands for no limit, which is `Infinity`
 * milliseconds.
 */
export function ttlSecs(ttl: number): number {
    if (typeof ttl !== 'number') throw wrongType(`ttl is a number of milliseconds, found ${shown(ttl)}`);
    if (!(ttl > 0)) {
        throw wrongValue(`ttl is ${ttl} ms, expected more than 0; delete() removes an item, Infinity keeps it`);
    }
    return ttl === Infinity ? 0 : Math.min(Math.ceil(ttl / 1000), SECS_MAX);
}

/** Returns a number of milliseconds. */
export function millisOf(value: unknown, name: string, min = 0): number {
    if (typeof value !== 'number') throw wrongType(`${name} is a number of milliseconds, found ${shown(value)}`);
    if (!(value >= min)) throw wrongValue(`${name} is ${value} ms, expected ${min} or more`);
    return value;
}
