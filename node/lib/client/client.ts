/** The class `Client`. */

import { Tag } from '../codec';
import { failure, shown, wrongType, wrongValue } from '../errors';
import type { LoadContext, LoadOptions } from '../load';
import type { Key } from '../native';
import { millisOf } from '../options';
import { ClientLoads } from './loads';
import type { ClientOptions, RequestOptions } from './options';
import { type Reply, Shape } from './protocol';
import * as replies from './replies';
import { Outcome, type ServerStats, abortable, isUnavailable } from './replies';
import { RELATIVE_SECS_MAX, Requests, allOf, exptime, nameOf } from './requests';
import type { Server } from './server';
import type { ServerSpec } from './servers';
import { exactInteger } from './values';

/** How often an absent counter is created that another client removes. */
const ATTEMPTS_MAX = 8;
/** How long clients wait for the loader of another one. */
const LEASE_MILLIS = 30_000;

/** How many requests of one call wait for responses at the same time. */
const BATCH_MAX = 5000;

/** Divides a list, so that the time limit of a request does not include all others. */
function* batches<T>(list: T[]): IterableIterator<T[]> {
    for (let at = 0; at < list.length; at += BATCH_MAX) yield list.slice(at, at + BATCH_MAX);
}

/**
 * A client of larderd and memcached (1.6 or newer).
 *
 * Its methods are those of {@link Cache}, but return promises: values have the same types, times
 * to live are milliseconds, a miss is undefined, and errors have a `code`. Requests of one turn of
 * the event loop are sent together. Hits are read in the memory of a larderd that shares it at a
 * unix socket, without a request.
 *
 * Each key belongs to one of the servers, by libmemcached's weighted ketama, as in the clients of
 * Larder in other languages. A request to a server that is away fails: see `onUnavailable`.
 *
 * A request that fails with `ERR_LARDER_TIMEOUT` or `ERR_LARDER_UNAVAILABLE` may have been
 * executed.
 *
 * ```js
 * const client = new Client(['10.0.0.1', '10.0.0.2'], { ttl: 60_000 });
 * await client.set('user:17', { name: 'Ada' });
 * await client.get('user:17'); // { name: 'Ada' }
 * await client.close();
 * ```
 */
export class Client<V = unknown> {
    readonly #requests: Requests<V>;
    readonly #loads: ClientLoads;

    /** Connects to no server yet: the first request to each server does. */
    constructor(
        servers: ServerSpec | readonly ServerSpec[] = '127.0.0.1',
        options: ClientOptions = {},
    ) {
        const requests = new Requests<V>(servers, options);
        this.#requests = requests;
        this.#loads = new ClientLoads({
            hidesFaults: requests.options.hidesFaults,
            find: (key, leaseSecs, staleSecs) => requests.find(key, leaseSecs, staleSecs),
            storeIf: (key, value, secs, cas) => requests.storeIf(key, value, secs, cas),
            removeIf: (key, cas) => requests.change(key, 'md ', ` C${cas}`, replies.outcome),
        });
    }

    /** The names of the servers: `host:port`, or the path of a unix socket. */
    get servers(): string[] {
        return this.#requests.servers.map(({ address }) => address.name);
    }

    /** True if hits of all servers are currently read in their memory. */
    get readsMemory(): boolean {
        return this.#requests.servers.every(({ local }) => local?.readsMemory ?? false);
    }

    /** Returns the value of a key; undefined if it is absent. */
    get(key: Key, options?: RequestOptions): Promise<V | undefined> {
        const requests = this.#requests;
        try {
            const wire = requests.wire(key, options);
            const server = requests.owner(key);
            const found = server.local === undefined ? undefined : requests.local(server, wire);
            if (found !== undefined) return Promise.resolve(found);
            const value = requests.send(server, wire, 'mg ', ' v f', requests.value);
            return requests.kindly(abortable(value, options?.signal), undefined);
        } catch (error) {
            return Promise.reject(error as Error);
        }
    }

    /** Returns a value and its cas token, for `compareAndSet`; undefined if the key is absent. */
    getWithToken(
        key: Key,
        options?: RequestOptions,
    ): Promise<{ value: V; token: bigint } | undefined> {
        const parse = (reply: Reply): { value: V; token: bigint } | undefined => {
            const value = this.#requests.value(reply);
            return value === undefined ? undefined : { value, token: replies.token(reply) };
        };
        return this.#requests.read(key, ' v f c', parse, undefined, options);
    }

    /** Returns the values of several keys as a Map, without the keys that are absent. */
    async getMany<K extends Key>(keys: Iterable<K>, options?: RequestOptions): Promise<Map<K, V>> {
        const found = new Map<K, V>();
        for (const names of batches([...keys])) {
            const values = new Array<V | undefined>(names.length);
            await abortable(this.#requests.gather(names, values, options), options?.signal);
            for (const [at, value] of values.entries()) {
                if (value !== undefined) found.set(names[at]!, value);
            }
        }
        return found;
    }

    /** Stores a value for `ttl` milliseconds, by default those of the client. */
    async set(key: Key, value: V, ttl?: number, options?: RequestOptions): Promise<void> {
        const outcome = await this.#requests.store(key, value, ttl, '', Outcome.done, options);
        if (outcome !== Outcome.done) {
            throw failure('ERR_LARDER_STORE', `the server did not store ${shown(key)}`);
        }
    }

    /**
     * Stores several items. Returns the keys of those that were not stored: a server had no memory
     * for them, or was unavailable.
     */
    async setMany<K extends Key>(
        items: Iterable<readonly [K, V]>,
        ttl?: number,
        options?: RequestOptions,
    ): Promise<K[]> {
        const failed: K[] = [];
        let unexpected: unknown;
        for (const list of batches([...items])) {
            const stores = list.map(([key, value]) =>
                this.#requests.store(key, value, ttl, '', undefined, options),
            );
            for (const [at, result] of (await Promise.allSettled(stores)).entries()) {
                if (result.status === 'fulfilled' && result.value === Outcome.done) continue;
                failed.push(list[at]![0]);
                const error = result.status === 'rejected' ? (result.reason as unknown) : undefined;
                if (error !== undefined && !replies.isNotStored(error) && !isUnavailable(error)) {
                    unexpected ??= error;
                }
            }
        }
        if (unexpected !== undefined) throw unexpected;
        return failed;
    }

    /** Stores a value if the key is absent. Returns false if it is present. */
    async add(key: Key, value: V, ttl?: number, options?: RequestOptions): Promise<boolean> {
        return (
            (await this.#requests.store(key, value, ttl, ' ME', Outcome.notStored, options)) ===
            Outcome.done
        );
    }

    /** Stores a value if the key is present. Returns false if it is absent. */
    async replace(key: Key, value: V, ttl?: number, options?: RequestOptions): Promise<boolean> {
        return (
            (await this.#requests.store(key, value, ttl, ' MR', Outcome.notStored, options)) ===
            Outcome.done
        );
    }

    /**
     * Stores a value if the item still has this token. Returns false if it was stored again since,
     * and undefined if it is gone.
     */
    async compareAndSet(
        key: Key,
        value: V,
        token: bigint,
        ttl?: number,
        options?: RequestOptions,
    ): Promise<boolean | undefined> {
        if (typeof token !== 'bigint' || token < 0n) {
            throw wrongType(`a token is a bigint, found ${shown(token)}`);
        }
        const outcome = await this.#requests.store(
            key,
            value,
            ttl,
            ` C${token}`,
            Outcome.absent,
            options,
        );
        return outcome === Outcome.absent ? undefined : outcome === Outcome.done;
    }

    /** Appends to a value of the same type, text or bytes. Returns false if the key is absent. */
    append(key: Key, part: string | Uint8Array, options?: RequestOptions): Promise<boolean> {
        return this.#requests.extend(key, part, ' MA', options);
    }

    /** Same as `append`, in front of the value. */
    prepend(key: Key, part: string | Uint8Array, options?: RequestOptions): Promise<boolean> {
        return this.#requests.extend(key, part, ' MP', options);
    }

    /** Returns true if the key is present. */
    has(key: Key, options?: RequestOptions): Promise<boolean> {
        return this.#requests.read(key, '', replies.isDone, false, options);
    }

    /** Removes an item. Returns false if the key was absent. */
    delete(key: Key, options?: RequestOptions): Promise<boolean> {
        return this.#requests.kindly(
            this.#requests.change(key, 'md ', '', replies.isDone, options),
            false,
        );
    }

    /** Removes several items, and returns how many were present. */
    async deleteMany(keys: Iterable<Key>, options?: RequestOptions): Promise<number> {
        const results = await allOf([...keys].map((key) => this.delete(key, options)));
        return results.filter(Boolean).length;
    }

    /** Gives an item a new time to live. Returns false if the key is absent. */
    async touch(key: Key, ttl?: number, options?: RequestOptions): Promise<boolean> {
        const flag = ` T${exptime(this.#requests.secsOf(ttl))}`;
        return this.#requests.kindly(
            this.#requests.change(key, 'mg ', flag, replies.isDone, options),
            false,
        );
    }

    /** Gives an item a new time to live, and returns its value; undefined if it is absent. */
    async getAndTouch(key: Key, ttl?: number, options?: RequestOptions): Promise<V | undefined> {
        const flags = ` v f T${exptime(this.#requests.secsOf(ttl))}`;
        return this.#requests.kindly(
            this.#requests.change(key, 'mg ', flags, this.#requests.value, options),
            undefined,
        );
    }

    /**
     * Returns the remaining time to live in milliseconds, `Infinity` for an item that does not
     * expire; undefined if the key is absent.
     */
    ttlOf(key: Key, options?: RequestOptions): Promise<number | undefined> {
        return this.#requests.read(key, ' t', replies.millisLeft, undefined, options);
    }

    /**
     * Adds to a counter, and returns its new value. An absent counter starts at `initial`, by
     * default 0, with the time to live; with `initial: null` the result is undefined. The counters
     * of a server have 64 bits without a sign: they do not fall below 0, and continue after
     * 2^64 - 1 with 0.
     */
    increment(
        key: Key,
        delta?: number,
        options?: { initial?: number; ttl?: number } & RequestOptions,
    ): Promise<number | bigint>;
    increment(
        key: Key,
        delta: number | undefined,
        options: { initial: number | null; ttl?: number } & RequestOptions,
    ): Promise<number | bigint | undefined>;
    async increment(
        key: Key,
        delta = 1,
        {
            initial = 0,
            ttl,
            signal,
        }: { initial?: number | null; ttl?: number } & RequestOptions = {},
    ): Promise<number | bigint | undefined> {
        for (const [name, number] of Object.entries({ delta, initial: initial ?? 0 })) {
            if (!Number.isSafeInteger(number)) {
                throw wrongValue(`${name} is ${shown(number)}, expected an integer`);
            }
        }
        if (initial !== null && initial < 0) {
            throw wrongValue(`initial is ${initial}, expected 0 or more`);
        }
        const secs = this.#requests.secsOf(ttl);
        const options = signal === undefined ? {} : { signal };
        const flags = delta < 0 ? ` v MD D${-delta}` : ` v D${delta}`;
        for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
            const value = await this.#requests.change(key, 'ma ', flags, replies.counter, options);
            if (value !== undefined || initial === null) return value;
            // The server would create a counter without the tag of an integer.
            const text = String(Math.max(0, initial + delta));
            const parameters = ` ME F${Tag.integer} T${exptime(secs)}`;
            const outcome = await this.#requests.change(
                key,
                'ms ',
                parameters,
                replies.outcome,
                options,
                text,
            );
            if (outcome === Outcome.done) return exactInteger(text);
        }
        throw failure('ERR_LARDER_STORE', `the counter ${shown(key)} is removed again and again`);
    }

    /** Subtracts from a counter: same as `increment` with the negative number. */
    decrement(
        key: Key,
        delta?: number,
        options?: { initial?: number; ttl?: number } & RequestOptions,
    ): Promise<number | bigint>;
    decrement(
        key: Key,
        delta: number | undefined,
        options: { initial: number | null; ttl?: number } & RequestOptions,
    ): Promise<number | bigint | undefined>;
    decrement(
        key: Key,
        delta = 1,
        options: { initial?: number | null; ttl?: number } & RequestOptions = {},
    ): Promise<number | bigint | undefined> {
        return this.increment(key, -delta, { initial: 0, ...options });
    }

    /**
     * Returns the value of a key; on a miss, calls `load` and stores its result for `ttl`
     * milliseconds (undefined: the client's default).
     *
     * Of all clients that request the key at the same time, one calls its `load`. The others wait.
     * Callers of this client that wait together receive the same object, or the error of `load`;
     * of other clients the next one then calls its own. For `stale` milliseconds after the time to
     * live callers receive the old value, while one of them refreshes it in the background.
     *
     * If the process of `load` is killed, others wait until `lease`, by default 30,000
     * milliseconds, is over. After `wait` milliseconds, by default the same, a waiting caller
     * calls its own `load`.
     *
     * The result is not stored if the key was stored or deleted during the load, or if it is
     * undefined. During a load the server has an empty item. Clients of other packages read it as
     * an empty value.
     */
    async wrap<T extends V>(
        key: Key,
        ttl: number | undefined,
        load: (context: LoadContext) => T | PromiseLike<T>,
        options: LoadOptions = {},
    ): Promise<T> {
        const { stale = 0, lease = LEASE_MILLIS, wait = lease } = options;
        if (typeof load !== 'function') {
            throw wrongType(`wrap takes a key, a ttl and a function, found ${shown(load)}`);
        }
        const id = nameOf(this.#requests.wire(key, options));
        const loaded = await this.#loads.load(key, id, load, {
            ...options,
            ttlSecs: this.#requests.secsOf(ttl),
            staleSecs: Math.ceil(millisOf(stale, 'stale') / 1000),
            lease: millisOf(lease, 'lease', 1),
            wait: millisOf(wait, 'wait'),
        });
        return loaded as T;
    }

    /** Removes all items of all servers, now or after `delay` milliseconds. */
    async flush(delay = 0, options?: RequestOptions): Promise<void> {
        const secs = Math.ceil(millisOf(delay, 'delay') / 1000);
        if (secs > RELATIVE_SECS_MAX) {
            throw wrongValue(`delay is ${delay} ms, expected up to 30 days`);
        }
        const line = secs === 0 ? 'flush_all' : `flush_all ${secs}`;
        const begin = (server: Server): (() => void) | undefined => server.local?.change();
        await this.#requests.ofAll(line, Shape.line, replies.flushed, options, begin);
    }

    /** Returns the statistics of each server, by its name; `section` is for example `'items'`. */
    async stats(section?: string, options?: RequestOptions): Promise<Map<string, ServerStats>> {
        if (section !== undefined && !/^[\x21-\x7e]+( [\x21-\x7e]+)*$/.test(section)) {
            throw wrongValue(`section is ${shown(section)}, expected words such as 'items'`);
        }
        const line = section === undefined ? 'stats' : `stats ${section}`;
        return this.#requests.ofAll(line, Shape.lines, replies.statistics, options);
    }

    /** Returns the version of each server, by its name. */
    version(options?: RequestOptions): Promise<Map<string, string>> {
        return this.#requests.ofAll('version', Shape.line, replies.version, options);
    }

    /** True after `close`. */
    get closed(): boolean {
        return this.#requests.isClosed;
    }

    /**
     * Closes the client when its requests in flight have ended, each within its `timeout`. Later
     * requests fail with `ERR_LARDER_CLOSED`.
     */
    async close(): Promise<void> {
        this.#requests.isClosed = true;
        await Promise.all(this.#requests.servers.map((server) => server.close()));
    }

    /** Closes the client; requests in flight fail with `ERR_LARDER_CLOSED`. */
    [Symbol.dispose](): void {
        this.#requests.isClosed = true;
        for (const server of this.#requests.servers) server.destroy();
    }

    [Symbol.asyncDispose](): Promise<void> {
        return this.close();
    }

    get [Symbol.toStringTag](): string {
        return 'Client';
    }
}
