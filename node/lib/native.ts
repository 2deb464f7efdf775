/** Loads the native module, and names what it exports: `src/` has the documentation. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { platformName } from './platform';

/** A key: a string, which is stored as UTF-8, or bytes; 1 to 250 bytes. */
export type Key = string | Uint8Array;

/** What `store` returns. */
export const enum Answer {
    notStored,
    stored,
    exists,
    absent,
    needsCodec,
}

/** The modes of `store`. */
export const enum Mode {
    set,
    add,
    replace,
    append,
    prepend,
}

export interface Operations {
    get(key: Key): unknown;
    look(key: Key): unknown;
    getInto(key: Key, room: Uint8Array): void;
    prefetch(...keys: Key[]): void;
    store(key: Key, value: unknown, ttlSecs: number, how: number, token?: bigint): Answer;
    has(key: Key): boolean;
    delete(key: Key): boolean;
}

export interface NativeScratch {
    renew(slab: Uint8Array): void;
    readonly cas: bigint;
}

export interface NativeLease {
    release(): boolean;
}

export interface NativeLoad {
    finish(value: unknown, ttlSecs: number, flags?: number): boolean;
    cancel(): void;
}

export interface NativeCache {
    operations(scratch: NativeScratch): Operations;
    secondsLeft(scratch: NativeScratch): number;
    secondsLeftOf(key: Key): number | null;
    flagsOf(key: Key): number | null;
    deleteIf(key: Key, token: bigint): boolean | null;
    touch(key: Key, ttlSecs: number): boolean;
    add(
        key: Key,
        delta: number,
        initial: number | null,
        ttlSecs: number,
    ): number | bigint | null;
    removePrefix(prefix: Key): number;
    clear(): void;
    size(): number;
    walk(prefix: Key): { next(count: number): (string | Buffer)[] };
    stats(): { name: string; value: number }[];
    memory(): { limit: number; used: number; items: number; index: number };
    hasCas(): boolean;
    lease(key: Key, millis: number): NativeLease | null;
    beginLoad(key: Key, secs: number): NativeLoad;
    close(): void;
    readonly closed: boolean;
}

export interface NativeReader {
    readsMemory(): boolean;
    get(key: Key): { value: Buffer; flags: number; cas: bigint } | null;
    refresh(): Promise<void>;
}

export interface NativeRing {
    ownerOf(key: Key): number;
}

interface Native {
    NativeCache: new (options: {
        memory: number;
        path?: string;
        itemMax?: number;
        cas: boolean;
        evict: boolean;
        processes: number;
        permissions: number;
    }) => NativeCache;
    Scratch: new (report: Uint32Array) => NativeScratch;
    Ring: new (names: string[], weights: number[]) => NativeRing;
    openLocalReader(path: string, timeoutMillis: number): Promise<NativeReader>;
    throwNoCas(): never;
}

/** Loads the module that was built in the source tree, or that of the platform's package. */
function load(): Native {
    const built = join(__dirname, '..', 'larder.node');
    if (existsSync(built)) return require(built) as Native;
    const name = platformName(process);
    try {
        return require(name) as Native;
    } catch (error) {
        throw new Error(
            `larder-cache needs the package ${name} for this platform, which npm installs with it ` +
                `unless optional dependencies are omitted: ${(error as Error).message}`,
            { cause: error },
        );
    }
}

export const native: Native = load();
