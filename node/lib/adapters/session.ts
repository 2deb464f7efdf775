/** A store for express-session, so that all processes of a site know its sessions. */

import type { EventEmitter } from 'node:events';

import { Cache, type CacheOptions } from '../cache';
import { shown, wrongType } from '../errors';
import { keyThatFits } from './names';

/** The options of a store: a cache, or the options of a new one, and the following. */
export type SessionStoreOptions = ({ cache: Cache } | CacheOptions) & {
    /** The beginning of all keys, by default `'sess:'`. */
    prefix?: string;
    /** The life in milliseconds of a session with a cookie that does not expire: one day. */
    ttl?: number;
};

/** What express-session stores. */
export interface SessionData {
    cookie: { expires?: Date | string | null; toJSON?(): unknown };
}

type Done<T> = (error?: unknown, result?: T) => void;

/** The store: the interface that express-session expects. */
export interface SessionStore extends EventEmitter {
    readonly cache: Cache;
    get(id: string, done: Done<SessionData | null>): void;
    set(id: string, session: SessionData, done?: Done<void>): void;
    touch(id: string, session: SessionData, done?: Done<void>): void;
    destroy(id: string, done?: Done<void>): void;
    all(done: Done<Record<string, SessionData>>): void;
    length(done: Done<number>): void;
    clear(done?: Done<void>): void;
}

/** The module express-session: its stores derive from its class. */
export interface SessionModule {
    Store: new () => object;
}

const DAY = 86_400_000;

/**
 * Returns a store for express-session, which you pass as first argument.
 *
 * A session lives as long as its cookie, rounded up to whole seconds, and is stored as JSON. A full
 * cache evicts sessions that were not used recently, so give it enough memory: about 300 bytes for
 * a small session. With `evict: false` a full cache refuses new ones instead.
 *
 * ```js
 * import session from 'express-session';
 * import { sessionStore } from 'larder-cache/session';
 *
 * const store = sessionStore(session, { shared: '/dev/shm/sessions.larder', memory: '64M' });
 * app.use(session({ store, secret, resave: false, saveUninitialized: false }));
 * ```
 */
export function sessionStore(
    module: SessionModule,
    options: SessionStoreOptions = {},
): SessionStore {
    if (typeof module?.Store !== 'function') {
        throw wrongType(`sessionStore takes the module express-session, found ${shown(module)}`);
    }
    const { prefix = 'sess:', ttl = DAY } = options;
    const cache = 'cache' in options ? options.cache : new Cache({ ...options, ttl });
    const name = (id: string): string => keyThatFits(prefix + id);

    return new (class LarderStore extends module.Store {
        readonly cache = cache;

        get(id: string, done: Done<SessionData | null>): void {
            answer(done, () => (cache.get(name(id)) ?? null) as SessionData | null);
        }

        set(id: string, session: SessionData, done?: Done<void>): void {
            answer(done, () => {
                const millis = millisLeft(session, ttl);
                const cookie = session.cookie.toJSON?.() ?? session.cookie;
                // The session has passed its end, as after `cookie.maxAge = 0`.
                if (millis <= 0) cache.delete(name(id));
                else cache.set(name(id), { ...session, cookie }, millis);
            });
        }

        touch(id: string, session: SessionData, done?: Done<void>): void {
            answer(done, () => {
                const millis = millisLeft(session, ttl);
                // The value stays: another process may have stored a newer one.
                if (millis > 0) cache.touch(name(id), millis);
            });
        }

        destroy(id: string, done?: Done<void>): void {
            answer(done, () => void cache.delete(name(id)));
        }

        all(done: Done<Record<string, SessionData>>): void {
            answer(done, () => {
                const items = [...cache.entries(prefix)] as [string, SessionData][];
                return Object.fromEntries(items.map(([key, it]) => [key.slice(prefix.length), it]));
            });
        }

        length(done: Done<number>): void {
            answer(done, () => [...cache.keys(prefix)].length);
        }

        clear(done?: Done<void>): void {
            answer(done, () => void cache.removePrefix(prefix));
        }
    })() as unknown as SessionStore;
}

/** Runs an operation, and calls back afterwards; without a callback, errors are thrown. */
function answer<T>(done: Done<T> | undefined, operation: () => T): void {
    let result: T;
    try {
        result = operation();
    } catch (error) {
        if (done === undefined) throw error;
        process.nextTick(done, error);
        return;
    }
    if (done !== undefined) process.nextTick(done, null, result);
}

function millisLeft({ cookie: { expires } }: SessionData, ttl: number): number {
    if (expires === undefined || expires === null) return ttl;
    return new Date(expires).getTime() - Date.now();
}
