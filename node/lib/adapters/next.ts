/**
 * Cache handlers for Next.js: all processes of a site share pages, the results of `fetch` and of
 * functions with `'use cache'`, and see the tags that one of them invalidates.
 *
 * Next.js makes a handler for each request, so the caches belong to the module.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';

import { Cache, type CacheOptions } from '../cache';
import { keyThatFits } from './names';
import { type Durations, Tags } from './tags';

export type { Durations } from './tags';

/** The options of both handlers: those of the cache, and the following. */
export interface NextOptions extends CacheOptions {
    /** A cache to use instead of a new one. */
    cache?: Cache;
    /** The beginning of all keys, by default `'next:'`. */
    prefix?: string;
    /** The memory for the tags that were invalidated, by default `'8M'`, about 60,000 tags. */
    tagMemory?: number | string;
}

/** An entry of the handler: the value is an object of Next.js. */
export interface NextEntry {
    lastModified: number;
    value: NextValue | null;
    cacheControl?: { revalidate?: number | false; expire?: number };
}

/** A page, the response of a route, a redirect, an image or the result of a `fetch`. */
export interface NextValue {
    kind: string;
    headers?: Record<string, unknown>;
    tags?: string[];
    revalidate?: number;
}

/** What Next.js passes with a key: `kind` is `'FETCH'` for a result of `fetch`. */
export interface NextContext {
    kind?: string;
    fetchCache?: boolean;
    tags?: string[];
    softTags?: string[];
    cacheControl?: { revalidate?: number | false; expire?: number };
}

/** The class for `cacheHandler` of next.config. */
export interface NextCacheHandler {
    get(key: string, context?: NextContext): Promise<NextEntry | null>;
    set(key: string, value: NextValue | null, context?: NextContext): Promise<void>;
    revalidateTag(tags: string | string[], durations?: Durations): Promise<void>;
    resetRequestCache(): void;
}

/** An entry of a function with `'use cache'`: times in seconds, `timestamp` in milliseconds. */
export interface UseCacheEntry {
    value: ReadableStream<Uint8Array>;
    tags: string[];
    stale: number;
    timestamp: number;
    expire: number;
    revalidate: number;
}

/** The object for `cacheHandlers` of next.config. */
export interface UseCacheHandler {
    get(key: string, softTags: string[]): Promise<UseCacheEntry | undefined>;
    set(key: string, pending: Promise<UseCacheEntry>): Promise<void>;
    refreshTags(): Promise<void>;
    getExpiration(tags: string[]): Promise<number>;
    updateTags(tags: string[], durations?: Durations): Promise<void>;
}

/** An entry of a function with `'use cache'` as it is stored. */
type StoredUse = Omit<UseCacheEntry, 'value'> & { contents: Uint8Array };

interface Opened {
    cache: Cache;
    tags: Tags;
    prefix: string;
}

/** One process refreshes a page, and others return the old one. After this time another tries. */
const REFRESH_MILLIS = 10_000;

const TAGS_HEADER = 'x-next-cache-tags';

/** The caches of this process by their files: both handlers use the same tags. */
const opened = new Map<string, Opened>();

/**
 * Returns the class for `cacheHandler`. It is for `next start` and servers of your own; during
 * `next build`, in which pages are in files, it stores nothing.
 *
 * Pages belong to a build: another build does not find them. Results of `fetch` stay. When the time
 * of a page is over, one process renders it again, and the others return the old one. An item that
 * is longer than `itemMax`, by default 1 MiB, is not cached; a warning says so once.
 *
 * ```js
 * // cache-handler.js; in next.config.js: cacheHandler: require.resolve('./cache-handler.js')
 * const { cacheHandler } = require('larder-cache/next');
 * module.exports = cacheHandler({ shared: '/dev/shm/site.larder', memory: '256M' });
 * ```
 */
export function cacheHandler(options: NextOptions = {}): new (context?: {
    serverDistDir?: string;
}) => NextCacheHandler {
    let build: string | undefined;
    return class LarderCacheHandler implements NextCacheHandler {
        readonly #open: Opened | null = isBuilding() ? null : openOnce(options);

        constructor(context: { serverDistDir?: string } = {}) {
            build ??= buildOf(context.serverDistDir);
        }

        async get(key: string, context: NextContext = {}): Promise<NextEntry | null> {
            if (this.#open === null) return null;
            const { cache, tags } = this.#open;
            const name = this.#name(key, context.kind === 'FETCH');
            const bytes = cache.get(name);
            if (!Buffer.isBuffer(bytes)) return null;
            const entry = deserialize(bytes) as NextEntry;
            const state = tags.stateOf(tagsOf(entry.value, context), entry.lastModified);
            if (state === 'expired') return null;
            const millis = Date.now() - entry.lastModified;
            if (state === 'fresh' && millis <= millisFresh(entry)) return entry;
            // A page that is rendered with an old result of fetch would be as old.
            if (context.kind === 'FETCH') return outdated(entry);
            if (cache.add(refreshName(name), true, REFRESH_MILLIS)) return outdated(entry);
            // Next.js must not find by its own times that the entry is old.
            return aged(entry, 0);
        }

        async set(key: string, value: NextValue | null, context: NextContext = {}): Promise<void> {
            if (this.#open === null) return;
            const isFetch = context.fetchCache === true || value?.kind === 'FETCH';
            const { cacheControl } = context;
            const entry: NextEntry = { lastModified: Date.now(), value: withTags(value, context) };
            if (cacheControl !== undefined) entry.cacheControl = cacheControl;
            const name = this.#name(key, isFetch);
            const { cache } = this.#open;
            stored(cache, name, serialize(entry), ttlOf(cacheControl?.expire));
            cache.delete(refreshName(name));
        }

        async revalidateTag(tags: string | string[], durations?: Durations): Promise<void> {
            this.#open?.tags.invalidate([tags].flat(), durations);
        }

        resetRequestCache(): void {
            // Each `get` reads the shared memory.
        }

        #name(key: string, isFetch: boolean): string {
            const { prefix } = this.#open!;
            return keyThatFits(isFetch ? `${prefix}fetch:${key}` : `${prefix}page:${build}:${key}`);
        }
    };
}

/**
 * Returns the object for `cacheHandlers`, which store the results of functions and components with
 * `'use cache'`. With the same `shared` it uses the same cache and tags as `cacheHandler`.
 *
 * ```js
 * // use-cache.js; in next.config.js: cacheHandlers: { default: require.resolve('./use-cache.js') }
 * const { useCacheHandler } = require('larder-cache/next');
 * module.exports = useCacheHandler({ shared: '/dev/shm/site.larder', memory: '256M' });
 * ```
 */
export function useCacheHandler(options: NextOptions = {}): UseCacheHandler {
    // The build keeps its entries for itself: they become a part of its pages.
    const { cache, tags, prefix } = isBuilding() ? open({}) : openOnce(options);
    const name = (key: string): string => keyThatFits(`${prefix}use:${key}`);
    const storing = new Map<string, Promise<void>>();
    const store = async (key: string, pending: Promise<UseCacheEntry>): Promise<void> => {
        const { value, ...rest } = await pending;
        if (rest.expire === 0) return;
        const contents = await bytesOfStream(value);
        stored(cache, name(key), serialize({ ...rest, contents }), ttlOf(rest.expire));
    };
    return {
        async get(key, softTags) {
            await storing.get(key);
            const bytes = cache.get(name(key));
            if (!Buffer.isBuffer(bytes)) return undefined;
            const { contents, ...entry } = deserialize(bytes) as StoredUse;
            const state = tags.stateOf([...entry.tags, ...softTags], entry.timestamp);
            if (state === 'expired') return undefined;
            if (state === 'stale') entry.revalidate = -1;
            return { ...entry, value: streamOf(contents) };
        },
        async set(key, pending) {
            // A `get` that waits must not fail with the function that made the entry.
            const done = store(key, pending).catch(warnOnce);
            storing.set(key, done);
            await done;
            if (storing.get(key) === done) storing.delete(key);
        },
        async refreshTags() {
            // Each `get` reads the shared memory.
        },
        async getExpiration(names) {
            return tags.lastExpiration(names);
        },
        async updateTags(names, durations) {
            tags.invalidate(names, durations);
        },
    };
}

function isBuilding(): boolean {
    return process.env['NEXT_PHASE'] === 'phase-production-build';
}

function openOnce(options: NextOptions): Opened {
    if (options.shared === undefined) return open(options);
    const id = JSON.stringify([options.shared, options.prefix]);
    const known = opened.get(id) ?? open(options);
    opened.set(id, known);
    return known;
}

function open(options: NextOptions): Opened {
    const { cache: given, prefix = 'next:', tagMemory = '8M', ...rest } = options;
    const cache = given ?? new Cache(rest);
    return { cache, prefix, tags: new Tags(cache, tagMemory, () => cache.removePrefix(prefix)) };
}

function buildOf(serverDistDir: string | undefined): string {
    if (serverDistDir === undefined) return '';
    try {
        return readFileSync(join(serverDistDir, '..', 'BUILD_ID'), 'utf8').trim();
    } catch {
        // `next dev` has no builds.
        return '';
    }
}

/** Returns the time after which Next.js refreshes an entry: `Infinity` for never. */
function millisFresh({ value, cacheControl }: NextEntry): number {
    const secs = value?.kind === 'FETCH' ? value.revalidate : cacheControl?.revalidate;
    return typeof secs === 'number' && secs > 0 ? secs * 1000 : Infinity;
}

/**
 * Returns an entry whose time to be refreshed has come. Next.js uses it, and refreshes it in the
 * background.
 */
function outdated(entry: NextEntry): NextEntry {
    const millis = millisFresh(entry);
    if (millis !== Infinity) return aged(entry, millis + 1);
    return { ...aged(entry, 1001), cacheControl: { ...entry.cacheControl, revalidate: 1 } };
}

/** Returns an entry that was made so many milliseconds ago. */
function aged(entry: NextEntry, millis: number): NextEntry {
    return { ...entry, lastModified: Date.now() - millis };
}

/** Returns the key that is present while a process refreshes a page. */
function refreshName(name: string): string {
    return keyThatFits(`${name}:refresh`);
}

/** Returns the tags of a value: pages have them in a header. */
function tagsOf(value: NextValue | null, context: NextContext): string[] {
    const header = value?.headers?.[TAGS_HEADER];
    const ofPage = typeof header === 'string' ? header.split(',') : [];
    const { tags = [], softTags = [] } = context;
    return [...ofPage, ...(value?.tags ?? []), ...tags, ...softTags];
}

/** Returns a value with the tags of its context, which a later `get` may lack. */
function withTags(value: NextValue | null, { tags = [] }: NextContext): NextValue | null {
    if (value?.kind !== 'FETCH' || tags.length === 0) return value;
    return { ...value, tags: [...new Set([...(value.tags ?? []), ...tags])] };
}

function ttlOf(secs: number | undefined): number {
    return secs === undefined || !(secs > 0) ? Infinity : secs * 1000;
}

function stored(cache: Cache, key: string, bytes: Buffer, ttl: number): void {
    try {
        cache.set(key, bytes, ttl);
    } catch (error) {
        // An older entry is not better than none.
        cache.delete(key);
        warnOnce(error);
    }
}

const warned = new Set<string>();

function warnOnce(error: unknown): void {
    const { message } = error as Error;
    if (warned.has(message)) return;
    warned.add(message);
    process.emitWarning(`an entry of Next.js is not cached: ${message}`, 'LarderWarning');
}

async function bytesOfStream(stream: ReadableStream<Uint8Array>): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    for await (const part of stream as unknown as AsyncIterable<Uint8Array>) parts.push(part);
    return Buffer.concat(parts);
}

function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
    return new ReadableStream({
        start(controller) {
            controller.enqueue(bytes);
            controller.close();
        },
    });
}
