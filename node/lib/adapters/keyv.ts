/** A storage adapter for Keyv 5 and 6, and so for all packages that take a Keyv store. */

import { EventEmitter } from 'node:events';

import { Cache, type CacheOptions } from '../cache';
import { failure, shown, wrongType, wrongValue } from '../errors';
import { keyThatFits } from './names';

type Eventually<T> = T | PromiseLike<T>;

/**
 * The methods that the adapter needs of a cache: those of `Cache`, or the same with promises. An
 * object without `removePrefix` has no `clear` of a namespace, one without `keys` no iterator.
 */
export interface KeyvBackend {
    get(key: string): Eventually<unknown>;
    set(key: string, value: never, ttl?: number): Eventually<unknown>;
    delete(key: string): Eventually<boolean>;
    getMany(keys: string[]): Eventually<Map<string, unknown>>;
    has?(key: string): Eventually<boolean>;
    removePrefix?(prefix: string): Eventually<unknown>;
    clear?(): Eventually<unknown>;
    /** The `clear` of clients. */
    flush?(): Eventually<unknown>;
    keys?(prefix: string): Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>;
    close(): Eventually<unknown>;
}

/** The options of the adapter: a cache, or the options of a new one. */
export type KeyvLarderOptions = { namespace?: string } & ({ cache: KeyvBackend } | CacheOptions);

/** One item of `setMany`: `ttl` is in milliseconds. */
export interface KeyvLarderEntry {
    key: string;
    value: unknown;
    ttl?: number | undefined;
}

/** So many bytes of a shortened key are always those of the namespace. */
const NAMESPACE_BYTES_MAX = 150;

/**
 * A store for Keyv in a `Cache` or a client.
 *
 * The store adds `namespace:` to each key; Keyv sets the namespace. Keys that are longer than 250
 * bytes are shortened to 206 bytes and a SHA-256. Keyv stores text that contains the value and the
 * time when it expires, and checks this time itself. Items live whole seconds, so `has` returns
 * true for up to a second longer.
 *
 * An operation that fails emits `'error'`, and resolves as if the key were absent or the store had
 * failed. Without a listener it rejects. Keyv always listens, and emits the error again.
 *
 * ```js
 * const store = new KeyvLarder({ shared: '/dev/shm/app.larder', memory: '256M' });
 * const users = new Keyv({ store, namespace: 'users' });
 * await users.set('17', { name: 'Ada' }, 60_000);
 * ```
 */
export class KeyvLarder extends EventEmitter {
    /**
     * The options, which Keyv reads. Keyv 5 offers iterators only over stores with one of the
     * dialects that it lists; the iterator of this store has the form of that dialect.
     */
    readonly opts: Record<string, unknown>;
    /** The cache of the store. */
    readonly cache: KeyvBackend;
    readonly #isOwn: boolean;
    #namespace: string | undefined;
    #prefix = '';

    constructor(options: KeyvBackend | KeyvLarderOptions = {}) {
        super();
        const given = backendIn(options);
        const namespace = given === options ? undefined : (options as KeyvLarderOptions).namespace;
        this.#isOwn = given === undefined;
        this.cache = given ?? new Cache(options as CacheOptions);
        this.namespace = namespace;
        this.opts = { dialect: 'redis', url: '', namespace };
    }

    /** The part of the cache that this store uses, at most 150 bytes; undefined for all of it. */
    get namespace(): string | undefined {
        return this.#namespace;
    }

    set namespace(namespace: string | undefined) {
        if (namespace !== undefined && typeof namespace !== 'string') {
            throw wrongType(`a namespace is a string, found ${shown(namespace)}`);
        }
        if (namespace !== undefined && Buffer.byteLength(namespace) > NAMESPACE_BYTES_MAX) {
            const limit = `at most ${NAMESPACE_BYTES_MAX} bytes`;
            throw wrongValue(`a namespace has ${limit}, found ${shown(namespace)}`);
        }
        this.#namespace = namespace;
        this.#prefix = namespace === undefined || namespace === '' ? '' : `${namespace}:`;
    }

    /** Resolves with the value of a key; undefined if it is absent. */
    async get<T = unknown>(key: string): Promise<T | undefined> {
        const name = this.#name(key);
        const value = await this.#guarded<unknown>(undefined, async () => this.cache.get(name));
        return value as T | undefined;
    }

    /** Resolves with the values of several keys in their order. */
    async getMany<T = unknown>(keys: string[]): Promise<(T | undefined)[]> {
        const none = keys.map(() => undefined);
        return this.#guarded<(T | undefined)[]>(none, async () => {
            const names = keys.map((key) => this.#name(key));
            const found = await this.cache.getMany(names);
            return names.map((name) => found.get(name) as T | undefined);
        });
    }

    /**
     * Stores a value for `ttl` milliseconds, by default those of the cache. Resolves with false if
     * it was not stored.
     */
    async set(key: string, value: unknown, ttl?: number): Promise<boolean> {
        return this.#guarded(false, async () => {
            if (ttl !== undefined && ttl <= 0) await this.cache.delete(this.#name(key));
            else await this.cache.set(this.#name(key), value as never, ttl);
            return true;
        });
    }

    /** Stores several items, and resolves with whether each one was stored. */
    async setMany(entries: KeyvLarderEntry[]): Promise<boolean[]> {
        return Promise.all(entries.map(({ key, value, ttl }) => this.set(key, value, ttl)));
    }

    /** Removes an item. Resolves with false if the key was absent. */
    async delete(key: string): Promise<boolean> {
        return this.#guarded(false, async () => this.cache.delete(this.#name(key)));
    }

    /** Removes several items. Resolves with true if at least one was present. */
    async deleteMany(keys: string[]): Promise<boolean> {
        const removed = await Promise.all(keys.map((key) => this.delete(key)));
        return removed.includes(true);
    }

    /** Resolves with true if the key is present. */
    async has(key: string): Promise<boolean> {
        return this.#guarded(false, async () => {
            if (this.cache.has !== undefined) return this.cache.has(this.#name(key));
            return (await this.cache.get(this.#name(key))) !== undefined;
        });
    }

    /** Resolves with whether each key is present. */
    async hasMany(keys: string[]): Promise<boolean[]> {
        return Promise.all(keys.map((key) => this.has(key)));
    }

    /** Removes all items of the namespace; without a namespace, all items of the cache. */
    async clear(): Promise<void> {
        await this.#guarded(undefined, async () => {
            const { cache } = this;
            if (this.#prefix === '' && cache.clear !== undefined) await cache.clear();
            else if (this.#prefix === '' && cache.flush !== undefined) await cache.flush();
            else if (cache.removePrefix !== undefined) await cache.removePrefix(this.#prefix);
            else throw unable('remove the items of a namespace');
        });
    }

    /**
     * Walks over the items of a namespace, by default that of the store. Returns keys without the
     * namespace, and shortened keys as they are stored, which are keys of the same items.
     */
    async *iterator<T = unknown>(namespace?: string): AsyncGenerator<[string, T], void> {
        const walked = namespace ?? this.#namespace;
        const prefix = walked === undefined || walked === '' ? '' : `${walked}:`;
        if (this.cache.keys === undefined) throw unable('list its keys');
        for await (const key of this.cache.keys(prefix)) {
            if (typeof key !== 'string') continue;
            const value = await this.cache.get(key);
            if (value !== undefined) yield [key.slice(prefix.length), value as T];
        }
    }

    /** Closes the cache if the store has opened it. A given cache stays open. */
    async disconnect(): Promise<void> {
        if (this.#isOwn) await this.cache.close();
    }

    #name(key: string): string {
        return keyThatFits(this.#prefix + key);
    }

    /** Runs an operation; emits its error and returns `otherwise` if it fails. */
    async #guarded<T>(otherwise: T, operation: () => Promise<T>): Promise<T> {
        try {
            return await operation();
        } catch (error) {
            if (this.listenerCount('error') === 0) throw error;
            this.emit('error', error);
            return otherwise;
        }
    }
}

/** Returns the cache in the first argument of the constructor; undefined if it is only options. */
function backendIn(options: KeyvBackend | KeyvLarderOptions): KeyvBackend | undefined {
    if (typeof options !== 'object' || options === null) {
        throw wrongType(`a store takes a cache or options, found ${shown(options)}`);
    }
    const given = 'cache' in options ? options.cache : options;
    if (typeof (given as Partial<KeyvBackend>).get === 'function') return given as KeyvBackend;
    if (given !== options) throw wrongType(`cache is a Cache or a client, found ${shown(given)}`);
    return undefined;
}

function unable(action: string): Error {
    return failure('ERR_LARDER_ARGUMENT', `this client cannot ${action}: use a Cache for it`);
}
