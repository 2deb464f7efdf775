/** The class `Cache`. */

import { resolve } from 'node:path';

import { bytesOf, nativeKey, nativePrefix, severalKeys } from './bytes';
import { codecOf, decoded, decodedLong, encoded, json, type Codec, Tag } from './codec';
import { failure, isNoRoom, shown, wrongType, wrongValue } from './errors';
import { Lease } from './lease';
import { Loads, type CheckedLoadOptions, type LoadContext, type LoadOptions } from './load';
import { Answer, type Key, Mode, type NativeCache, type NativeLoad, native, type Operations } from './native';
import { millisOf, sizeOf, ttlSecs } from './options';
import { Found, POOLED_BYTES_MAX, Report, renewSlab, report, scratch, slab } from './scratch';

/** The options of a cache. */
export interface CacheOptions {
    /**
     * Limits everything that the cache needs, items and index: bytes, or text such as `'64M'`
     * (default). A full cache evicts items that were not read recently.
     */
    memory?: number | string;
    /**
     * A file, preferably in `/dev/shm`. All processes that open it share the cache, and later ones
     * find it warm. The first one creates it with the given `memory`, `cas`, `evict`, `itemMax`,
     * `processes` and `permissions`; the others use it as it is. Without it the cache is private to
     * this object.
     */
    shared?: string;
    /** The codec of values that are not text, bytes, numbers, booleans or null; `null` for none. */
    codec?: Codec | 'json' | null;
    /** The default time to live in milliseconds; by default `Infinity`. */
    ttl?: number;
    /** False: items have no cas tokens, and 8 bytes less. */
    cas?: boolean;
    /** False: a store into a full cache fails. */
    evict?: boolean;
    /** The longest item: bytes or text, by default 1 MiB. */
    itemMax?: number | string;
    /** How many processes can use the file at the same time, up to 4096. */
    processes?: number;
    /** The permissions of a new file; by default 0o600. */
    permissions?: number;
}

/** The memory of a cache, in bytes: its limit, how much is in use, by items, by the index. */
export interface MemoryUsage {
    limit: number;
    used: number;
    items: number;
    index: number;
}

const PROCESSES_MAX = 4096;

/** Longer times of a load have no effect: 34 years, and a month. */
const STALE_SECS_MAX = 2 ** 30;
const LEASE_MILLIS_MAX = 30 * 24 * 3_600_000;

const TOKEN_MAX = 2n ** 64n - 1n;

/** How many keys an iterator takes from the native module at once. */
const KEYS_AT_ONCE = 64;

/** How many keys `getMany` prefetches together. */
const PREFETCHED = 16;

/** How often a value that changes during a read is read again. */
const ATTEMPTS_MAX = 8;

/**
 * A cache in the memory of this process, or in memory that processes share.
 *
 * Strings, bytes (any view, or an `ArrayBuffer`), numbers, bigints of 64 bits, booleans and null are
 * stored as they are. Bytes are returned as a Buffer, an integer as a number if it is exact, else as
 * a bigint. Other values are stored by the codec, by default as JSON. Each `get` returns a copy.
 *
 * Keys are strings, stored as UTF-8, or bytes; 1 to 250 bytes. Times to live are milliseconds; items
 * live whole seconds, so a time is rounded up. Like a `Map`, a cache has `get`, `set`, `has`,
 * `delete`, `clear`, `size`, `forEach` and iterators.
 *
 * All methods except `wrap` are synchronous: an operation takes less than a microsecond. They throw
 * errors with a `code`: see {@link ErrorCode}.
 *
 * ```js
 * const cache = new Cache({ shared: '/dev/shm/app.larder', memory: '256M', ttl: 60_000 });
 * cache.set('user:17', { name: 'Ada' });
 * cache.get('user:17'); // { name: 'Ada' }, in every process that opens the file
 * ```
 */
export class Cache<V = unknown> implements Iterable<[string | Buffer, V]> {
    /** The file that the cache is in; null for memory of this object. */
    readonly path: string | null;
    /** The codec of values without a type of their own. */
    readonly codec: Codec | null;
    readonly #native: NativeCache;
    readonly #operations: Operations;
    readonly #ttlSecs: number;
    readonly #loads: Loads<V>;

    constructor(options: CacheOptions = {}) {
        const { memory = '64M', shared, codec, ttl = Infinity, cas = true, evict = true } = options;
        const { itemMax, processes, permissions = 0o600 } = options;
        if (shared !== undefined && (typeof shared !== 'string' || shared === '')) {
            throw wrongType(`shared is the path of a file, for example in /dev/shm, found ${shown(shared)}`);
        }
        if (processes !== undefined && !(Number.isInteger(processes) && processes >= 1 && processes <= PROCESSES_MAX)) {
            throw wrongValue(`processes is ${shown(processes)}, expected 1 to ${PROCESSES_MAX}`);
        }
        if (!Number.isInteger(permissions) || permissions < 0 || permissions > 0o777) {
            throw wrongValue(`permissions are ${shown(permissions)}, expected a mode such as 0o660`);
        }
        this.codec = codecOf(codec);
        this.#ttlSecs = ttlSecs(ttl);
        this.path = shared === undefined ? null : resolve(shared);
        this.#native = new native.NativeCache({
            memory: sizeOf(memory, 'memory'),
            ...(this.path !== null && { path: this.path }),
            ...(itemMax !== undefined && { itemMax: sizeOf(itemMax, 'itemMax') }),
            cas: Boolean(cas),
            evict: Boolean(evict),
            processes: processes ?? 0,
            permissions,
        });
        this.#operations = this.#native.operations(scratch);
        this.#loads = new Loads({
            look: (key, staleSecs) => this.#look(key, staleSecs),
            lease: (key, millis) => this.#native.lease(key, millis),
            beginLoad: (key, secs) => this.#native.beginLoad(key, secs),
            finish: (load, value, secs) => this.#finish(load, value, secs),
            notes: this.path === null ? null : this,
        });
    }

    /** Returns the value of a key; undefined if it is absent. */
    get(key: Key): V | undefined {
        const name = typeof key === 'string' ? key : nativeKey(key);
        if (slab.length === 0) renewSlab();
        const value = this.#operations.get(name);
        return (value === undefined ? this.#reported(name) : value) as V | undefined;
    }

    /** Same as `get`, but does not count as a read, neither in the statistics nor for eviction. */
    peek(key: Key): V | undefined {
        const name = nativeKey(key);
        if (slab.length === 0) renewSlab();
        const value = this.#operations.look(name);
        return (value === undefined ? this.#reported(name) : value) as V | undefined;
    }

    /** Returns a value and its cas token, for `compareAndSet`; undefined if the key is absent. */
    getWithToken(key: Key): { value: V; token: bigint } | undefined {
        this.#checkTokens();
        let token = 0n;
        const value = this.#getNoting(key, () => (token = scratch.cas));
        return value === undefined ? undefined : { value, token };
    }

    /** Returns the values of several keys as a Map, without the keys that are absent. */
    getMany<K extends Key>(keys: Iterable<K>): Map<K, V> {
        const found = new Map<K, V>();
        const names = severalKeys(keys);
        for (let at = 0; at < names.length; at += PREFETCHED) {
            const group = names.slice(at, at + PREFETCHED);
            this.#operations.prefetch(...group.map(nativeKey));
            for (const key of group) {
                const value = this.get(key);
                if (value !== undefined) found.set(key, value);
            }
        }
        return found;
    }

    /** Stores a value for `ttl` milliseconds, by default those of the cache. */
    set(key: Key, value: V, ttl?: number): this {
        this.#store(key, value, ttl, Mode.set);
        return this;
    }

    /** Stores several items. Returns the keys of those for which there was no memory. */
    setMany<K extends Key>(items: Iterable<readonly [K, V]>, ttl?: number): K[] {
        const failed: K[] = [];
        for (const [key, value] of items) {
            try {
                this.#store(key, value, ttl, Mode.set);
            } catch (error) {
                if (!isNoRoom(error)) throw error;
                failed.push(key);
            }
        }
        return failed;
    }

    /** Stores a value if the key is absent. Returns false if it is present. */
    add(key: Key, value: V, ttl?: number): boolean {
        return this.#store(key, value, ttl, Mode.add) === Answer.stored;
    }

    /** Stores a value if the key is present. Returns false if it is absent. */
    replace(key: Key, value: V, ttl?: number): boolean {
        return this.#store(key, value, ttl, Mode.replace) === Answer.stored;
    }

    /**
     * Stores a value if the item still has this token. Returns false if it was stored again since,
     * and undefined if it is gone.
     */
    compareAndSet(key: Key, value: V, token: bigint, ttl?: number): boolean | undefined {
        this.#checkTokens();
        if (typeof token !== 'bigint' || token < 0n || token > TOKEN_MAX) {
            throw wrongType(`a token is a bigint of getWithToken, found ${shown(token)}`);
        }
        const answer = this.#store(key, value, ttl, Mode.set, token);
        return answer === Answer.absent ? undefined : answer === Answer.stored;
    }

    /**
     * Appends to a value of the same type, text or bytes. Returns false if the key is absent.
     */
    append(key: Key, part: string | Uint8Array): boolean {
        return this.#extend(key, part, Mode.append);
    }

    /** Same as `append`, in front of the value. */
    prepend(key: Key, part: string | Uint8Array): boolean {
        return this.#extend(key, part, Mode.prepend);
    }

    /** Returns true if the key is present. */
    has(key: Key): boolean {
        return this.#operations.has(nativeKey(key));
    }

    /** Removes an item. Returns false if the key was absent. */
    delete(key: Key): boolean {
        return this.#operations.delete(nativeKey(key));
    }

    /** Removes several items, and returns how many were present. */
    deleteMany(keys: Iterable<Key>): number {
        let count = 0;
        for (const key of severalKeys(keys)) count += Number(this.delete(key));
        return count;
    }

    /**
     * Removes an item and returns its value; undefined if it is absent. If several callers pop an
     * item of a cache with cas tokens, one of them receives it.
     */
    pop(key: Key): V | undefined {
        for (;;) {
            let token = 0n;
            const value = this.#getNoting(key, () => (token = scratch.cas));
            if (value === undefined) {
                // As any delete, this also ends a load of the key that is in progress.
                this.delete(key);
                return undefined;
            }
            const removed = this.#native.deleteIf(nativeKey(key), token);
            if (removed !== null) return removed ? value : undefined;
        }
    }

    /** Gives an item a new time to live. Returns false if the key is absent. */
    touch(key: Key, ttl?: number): boolean {
        return this.#native.touch(nativeKey(key), this.#secsOf(ttl));
    }

    /**
     * Returns the remaining time to live in milliseconds, `Infinity` for an item that does not
     * expire; undefined if the key is absent.
     */
    ttlOf(key: Key): number | undefined {
        const secs = this.#native.secondsLeftOf(nativeKey(key));
        if (secs === null) return undefined;
        return secs < 0 ? Infinity : secs * 1000;
    }

    /**
     * Adds to a counter, and returns its new value. An absent counter starts at `initial`, by
     * default 0, with the time to live; with `initial: null` the result is undefined. A counter has
     * 64 bits, and continues after 2^63 - 1 with -2^63.
     */
    increment(key: Key, delta?: number, options?: { initial?: number; ttl?: number }): number | bigint;
    increment(
        key: Key,
        delta: number | undefined,
        options: { initial: number | null; ttl?: number },
    ): number | bigint | undefined;
    increment(
        key: Key,
        delta = 1,
        { initial = 0, ttl }: { initial?: number | null; ttl?: number } = {},
    ): number | bigint | undefined {
        for (const [name, number] of Object.entries({ delta, initial: initial ?? 0 })) {
            if (!Number.isSafeInteger(number)) throw wrongValue(`${name} is ${shown(number)}, expected an integer`);
        }
        return this.#native.add(nativeKey(key), delta, initial, this.#secsOf(ttl)) ?? undefined;
    }

    /** Subtracts from a counter: same as `increment` with the negative number. */
    decrement(key: Key, delta?: number, options?: { initial?: number; ttl?: number }): number | bigint;
    decrement(
        key: Key,
        delta: number | undefined,
        options: { initial: number | null; ttl?: number },
    ): number | bigint | undefined;
    decrement(
        key: Key,
        delta = 1,
        options: { initial?: number | null; ttl?: number } = {},
    ): number | bigint | undefined {
        // The negative number of a string or an object would be a number.
        return this.increment(key, typeof delta === 'number' ? -delta : delta, { initial: 0, ...options });
    }

    /**
     * Returns the value of a key; on a miss, calls `load` and stores its result for `ttl`
     * milliseconds (undefined: the cache's default).
     *
     * Of all callers in all processes that request the key at the same time, one calls its `load`.
     * The others wait. If `load` throws, the error is not cached: the callers that are waiting throw
     * it, those of other processes an error with the code `ERR_LARDER_LOAD`. For `stale`
     * milliseconds after the time to live callers receive the old value, while one of them refreshes
     * it in the background.
     *
     * If the process of `load` is killed, another caller takes over within a second. If `load`
     * does not end, others try it after `lease` milliseconds. After `wait` milliseconds, by default
     * the same, a waiting caller calls its own `load`.
     *
     * The result is not stored if the key was stored or deleted during the load, or if it is
     * undefined.
     */
    wrap<T extends V>(
        key: Key,
        ttl: number | undefined,
        load: (context: LoadContext) => T | PromiseLike<T>,
        options: LoadOptions = {},
    ): Promise<T> {
        try {
            if (typeof load !== 'function') {
                throw wrongType(`wrap takes a key, a ttl and a function, found ${shown(load)}`);
            }
            return this.#loads.load<T>(nativeKey(key), load, this.#loadOptions(ttl, options));
        } catch (error) {
            return Promise.reject(error as Error);
        }
    }

    #loadOptions(ttl: number | undefined, options: LoadOptions): CheckedLoadOptions {
        const { stale = 0, lease = 60_000, wait = lease, signal } = options;
        if (signal !== undefined && typeof signal?.throwIfAborted !== 'function') {
            throw wrongType(`signal is an AbortSignal, found ${shown(signal)}`);
        }
        return {
            ...options,
            ttlSecs: this.#secsOf(ttl),
            staleSecs: Math.min(Math.ceil(millisOf(stale, 'stale') / 1000), STALE_SECS_MAX),
            lease: Math.min(millisOf(lease, 'lease', 1), LEASE_MILLIS_MAX),
            wait: millisOf(wait, 'wait'),
        };
    }

    /**
     * Takes the exclusive right to do something for a key; undefined if another process, worker or
     * caller has it. It ends with `release`, after `millis` milliseconds, or with the process.
     */
    lease(key: Key, millis: number): Lease | undefined {
        const lease = this.#native.lease(nativeKey(key), millisOf(millis, 'a lease'));
        return lease === null ? undefined : new Lease(lease);
    }

    /** Removes all items whose keys begin with `prefix`, and returns their number. */
    removePrefix(prefix: Key): number {
        return this.#native.removePrefix(nativePrefix(prefix));
    }

    /** Removes all items. */
    clear(): void {
        this.#native.clear();
    }

    /** The number of items. Expired and cleared ones count until their memory is used again. */
    get size(): number {
        return this.#native.size();
    }

    /**
     * Walks over the keys that begin with `prefix`. The walk returns each key that is present from
     * its beginning to its end; keys that are stored or removed during the walk may be returned. A
     * key that is no text is returned as a Buffer.
     */
    *keys(prefix: Key = ''): IterableIterator<string | Buffer> {
        const walk = this.#native.walk(nativePrefix(prefix));
        for (let keys = walk.next(KEYS_AT_ONCE); keys.length > 0; keys = walk.next(KEYS_AT_ONCE)) {
            yield* keys;
        }
    }

    /** Walks over the values of the keys that begin with `prefix`: see `keys`. */
    *values(prefix: Key = ''): IterableIterator<V> {
        for (const [, value] of this.entries(prefix)) yield value;
    }

    /** Walks over the items whose keys begin with `prefix`: see `keys`. */
    *entries(prefix: Key = ''): IterableIterator<[string | Buffer, V]> {
        for (const key of this.keys(prefix)) {
            const value = this.peek(key);
            if (value !== undefined) yield [key, value];
        }
    }

    [Symbol.iterator](): IterableIterator<[string | Buffer, V]> {
        return this.entries();
    }

    /** Calls `each` for every item. */
    forEach(each: (value: V, key: string | Buffer, cache: this) => void, thisArg?: unknown): void {
        for (const [key, value] of this) each.call(thisArg, value, key, this);
    }

    /** Returns the statistics of the cache, those of all processes. */
    stats(): Record<string, number> {
        return Object.fromEntries(this.#native.stats().map(({ name, value }) => [name, value]));
    }

    /** Returns how the memory is used. */
    memoryUsage(): MemoryUsage {
        return this.#native.memory();
    }

    /** True if items have cas tokens. */
    get hasTokens(): boolean {
        return this.#native.hasCas();
    }

    /** True after `close`. */
    get closed(): boolean {
        return this.#native.closed;
    }

    /**
     * Closes the cache; later operations throw `ERR_LARDER_CLOSED`. A shared cache stays in its file.
     */
    close(): void {
        this.#native.close();
    }

    [Symbol.dispose](): void {
        this.close();
    }

    get [Symbol.toStringTag](): string {
        return 'Cache';
    }

    /**
     * Same as `get`. Calls `note` after the item was found, and before a codec decodes its value: a
     * codec may use the cache, and then the scratch memory describes another item.
     */
    #getNoting(key: Key, note: (() => void) | undefined): V | undefined {
        const name = nativeKey(key);
        if (slab.length === 0) renewSlab();
        const value = this.#operations.get(name);
        if (value === undefined) return this.#reported(name, note) as V | undefined;
        note?.();
        return value as V;
    }

    /** Returns the value that the last native read has reported. */
    #reported(key: Key, note?: () => void): unknown {
        switch (report[Report.kind]) {
            case Found.nothing:
                return undefined;
            case Found.copied: {
                const at = report[Report.at]!;
                const flags = report[Report.flags]!;
                const bytes = slab.subarray(at, at + report[Report.length]!);
                note?.();
                if (flags === Tag.bytes) return bytes;
                // The native module keeps no bytes of JSON in the slab, but a codec may.
                const isLent = flags === Tag.json && this.codec !== json;
                return decoded(this.codec, isLent ? Buffer.from(bytes) : bytes, flags);
            }
            default:
                return this.#unpooled(key, note);
        }
    }

    /** Reads a value for which the slab had no room. */
    #unpooled(key: Key, note?: () => void): unknown {
        for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
            const length = report[Report.length]!;
            if (length <= POOLED_BYTES_MAX) {
                renewSlab();
                const value = this.#operations.look(key);
                if (value !== undefined) {
                    note?.();
                    return value;
                }
                if (report[Report.kind] !== Found.tooLong) return this.#reported(key, note);
                continue;
            }
            const room = Buffer.allocUnsafeSlow(length);
            this.#operations.getInto(key, room);
            if (report[Report.kind] === Found.nothing) return undefined;
            // Another process may have stored a longer value since.
            if (report[Report.kind] === Found.copied) {
                note?.();
                const bytes = room.subarray(0, report[Report.length]);
                return decodedLong(this.codec, bytes, report[Report.flags]!);
            }
        }
        return undefined;
    }

    /** Reads a value, and says whether it has more than `staleSecs` seconds left. */
    #look(key: Key, staleSecs: number): { value: V; isFresh: boolean } | undefined {
        let left = -1;
        const note = staleSecs === 0 ? undefined : () => (left = this.#native.secondsLeft(scratch));
        const value = this.#getNoting(key, note);
        if (value === undefined) return undefined;
        return { value, isFresh: left < 0 || left > staleSecs };
    }

    #store(key: Key, value: V, ttl: number | undefined, mode: Mode, token?: bigint): Answer {
        const name = typeof key === 'string' ? key : nativeKey(key);
        const secs = ttl === undefined ? this.#ttlSecs : ttlSecs(ttl);
        if (typeof value === 'object' && value !== null) {
            const bytes = bytesOf(value);
            if (bytes === undefined) return this.#storeEncoded(name, value, secs, mode, token);
            return this.#operations.store(name, bytes, secs, mode, token);
        }
        if (value === undefined || typeof value === 'function' || typeof value === 'symbol') {
            throw wrongType(`a value is not ${shown(value)}; delete() removes an item`);
        }
        const answer = this.#operations.store(name, value, secs, mode, token);
        // Text with a lone surrogate, which UTF-8 cannot express.
        return answer === Answer.needsCodec ? this.#storeEncoded(name, value, secs, mode, token) : answer;
    }

    #storeEncoded(key: Key, value: V, secs: number, mode: Mode, token?: bigint): Answer {
        const bytes = encoded(this.codec, value);
        const answer = this.#operations.store(key, bytes, secs, how(mode, this.codec!.tag), token);
        if (answer !== Answer.needsCodec) return answer;
        throw failure('ERR_LARDER_CODEC', 'encode of a codec has returned text with a lone surrogate');
    }

    #finish(load: NativeLoad, value: V, secs: number): boolean {
        const bytes = typeof value === 'object' && value !== null ? bytesOf(value) : undefined;
        if (bytes !== undefined) return load.finish(bytes, secs);
        const needsCodec = typeof value === 'string' ? !isWellFormed(value) : typeof value === 'object';
        if (!needsCodec || value === null) return load.finish(value, secs);
        return load.finish(encoded(this.codec, value), secs, this.codec!.tag);
    }

    #extend(key: Key, part: string | Uint8Array, mode: Mode): boolean {
        const isText = typeof part === 'string';
        if (!isText && !(typeof part === 'object' && bytesOf(part) !== undefined)) {
            throw wrongType(`only text and bytes can be added to a value, found ${shown(part)}`);
        }
        const name = nativeKey(key);
        const flags = this.#native.flagsOf(name);
        if (flags === null) return false;
        if (flags !== (isText ? Tag.text : Tag.bytes)) {
            const kind = isText ? 'text' : 'bytes';
            throw wrongType(`the value of ${shown(key)} is not ${kind}, so ${kind} cannot be added to it`);
        }
        const answer = this.#operations.store(name, isText ? part : bytesOf(part)!, 0, mode);
        if (answer !== Answer.needsCodec) return answer === Answer.stored;
        throw wrongType('the text contains a lone surrogate, so it cannot be added to a value');
    }

    #secsOf(ttl: number | undefined): number {
        return ttl === undefined ? this.#ttlSecs : ttlSecs(ttl);
    }

    #checkTokens(): void {
        if (!this.#native.hasCas()) native.throwNoCas();
    }
}

/** The fourth argument of a native store for bytes with these flags. */
function how(mode: Mode, flags: number): number {
    return mode + 16 * (flags + 1);
}

function isWellFormed(text: string): boolean {
    return !/\p{Surrogate}/u.test(text);
}
