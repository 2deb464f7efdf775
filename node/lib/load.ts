/**
 * Loads: one caller computes the value of a key while the other callers wait for it.
 *
 * Callers are those of all processes that share the cache, also of programs in Python. The caller
 * that takes the key's lease is the leader, and calls its loader. All others wait: they look for the
 * value, and for the lease, after 1, 2, 4 … up to 50 milliseconds, and as soon as a leader of this
 * thread has ended.
 *
 * The lease ends with the load. It also ends if the leader is aborted, or its worker or process is
 * killed: then the next caller that looks becomes the leader. If the loader throws an error, the
 * leader leaves a note before it ends the lease. A caller that began before that moment throws the
 * error, a later one loads again. Callers of the leader's thread receive the error itself, others
 * one with its name and message.
 *
 * `crates/models/src/load` searches all orders of these steps, and shows that each rule is needed:
 * docs/decisions/0048.
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';

import { failure, isLarderError, isNoRoom, messageOf, shown } from './errors';
import type { Key, NativeLease, NativeLoad } from './native';
import { SECS_MAX } from './options';

/** What a loader receives. */
export interface LoadContext {
    /** Aborted if the caller's `signal` is: nobody waits for the result any more. */
    signal: AbortSignal;
}

/** The options of `wrap`. All times are in milliseconds. */
export interface LoadOptions {
    /** The time after the time to live in which callers receive the old value during a refresh. */
    stale?: number;
    /** The longest time that other callers wait for a loader that does not end: 60,000. */
    lease?: number;
    /** After this time a waiting caller calls its own loader: as long as `lease`. */
    wait?: number;
    /** Aborts the wait of this caller. If it is the leader, another caller takes over. */
    signal?: AbortSignal;
    /**
     * Receives the error of a refresh in the background. By default it is a warning of the process.
     */
    onRefreshError?: (error: unknown) => void;
}

/** The options of `wrap` after they were checked. */
export interface CheckedLoadOptions extends LoadOptions {
    ttlSecs: number;
    staleSecs: number;
    lease: number;
    wait: number;
}

/** What loads need of a cache. */
export interface LoadedCache<V> {
    look(key: Key, staleSecs: number): { value: V; isFresh: boolean } | undefined;
    lease(key: Key, millis: number): NativeLease | null;
    beginLoad(key: Key, secs: number): NativeLoad;
    finish(load: NativeLoad, value: V, ttlSecs: number): boolean;
    /** The cache for notes to other processes; null if no other process uses it. */
    notes: { get(key: string): unknown; set(key: string, value: never, ttl: number): unknown } | null;
}

const FIRST_PAUSE = 1;
const LONGEST_PAUSE = 50;

/**
 * How long a loader waits for the value of another key. The wait is short because two loaders may
 * wait for each other's values.
 */
const NESTED_WAIT = 1000;

/** Waiting callers read the note of a failed load within this time. */
const NOTE_MILLIS = 2000;
const MESSAGE_MAX = 1000;

/** After a failed refresh the old value is returned for this time without another one. */
const REFRESH_PAUSE = 1000;

/** A failed load. The time is that of `process.hrtime`, which all processes of a machine share. */
interface Failure {
    failedNanos: bigint;
    error: unknown;
}

/** The loads around the running code. */
const loading = new AsyncLocalStorage<readonly Leader[]>();

/** The caller that computes a value: `end` ends its load. */
class Leader {
    isOver = false;
    readonly ended: Promise<void>;
    readonly #end: () => void;

    constructor(
        readonly loads: object,
        readonly id: string,
        readonly lease: NativeLease | null,
        readonly load: NativeLoad | null,
    ) {
        let end = (): void => undefined;
        this.ended = new Promise((resolve) => (end = resolve));
        this.#end = end;
    }

    /** Ends the lease, and wakes the callers of this thread that wait. */
    end(): void {
        if (this.isOver) return;
        this.isOver = true;
        try {
            this.load?.cancel();
            this.lease?.release();
        } catch (error) {
            // A stopped process holds a lock. The lease ends by itself when its time is over.
            if (!isLarderError(error, 'ERR_LARDER_STORE')) throw error;
        } finally {
            this.#end();
        }
    }
}

/** The loads of a cache. */
export class Loads<V> {
    readonly #cache: LoadedCache<V>;
    /** The loads of this thread that are in progress, by their keys. */
    readonly #leaders = new Map<string, Leader>();
    /** The loads that have failed in the last seconds, in the order of their times. */
    readonly #failures = new Map<string, Failure>();
    /**
     * When loads of the last seconds have ended with a result that cannot be stored: undefined, too
     * large, or without memory. Callers that waited for it load at the same time: otherwise each
     * would wait for the one before.
     */
    readonly #unstored = new Map<string, bigint>();

    constructor(cache: LoadedCache<V>) {
        this.#cache = cache;
    }

    /** Returns the value of a key; on a miss, the result of `load`. */
    async load<T extends V>(
        key: Key,
        load: (context: LoadContext) => T | PromiseLike<T>,
        options: CheckedLoadOptions,
    ): Promise<T> {
        options.signal?.throwIfAborted();
        const found = this.#look(key, options.staleSecs);
        if (found?.isFresh) return found.value as T;
        return (await this.#loadOrWait(key, load, options)) as T;
    }

    async #loadOrWait(
        key: Key,
        load: (context: LoadContext) => V | PromiseLike<V>,
        options: CheckedLoadOptions,
    ): Promise<V> {
        const id = idOf(key);
        const began = process.hrtime.bigint();
        const around = (loading.getStore() ?? []).filter((leader) => !leader.isOver);
        let wait = around.length > 0 ? Math.min(options.wait, NESTED_WAIT) : options.wait;
        this.#forgetOldFailures(began);
        for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
            const found = this.#look(key, options.staleSecs);
            if (found?.isFresh) return found.value;
            if (around.some((leader) => leader.loads === this && leader.id === id)) {
                throw failure('ERR_LARDER_RECURSIVE', `the loader of ${shown(key)} waits for itself`);
            }
            if (found && this.#hasJustFailed(id)) return found.value;
            const lease = this.#takeLease(key, options.lease);
            if (lease === undefined || began <= (this.#unstored.get(id) ?? -1n)) wait = 0;
            if (!lease && millisSince(began) < wait) {
                if (found) return found.value;
                this.#throwFailure(key, id, began);
                await this.#pause(pause, id, options.signal);
                continue;
            }
            return await this.#lead(key, id, lease ?? null, began, load, options);
        }
    }

    /**
     * Calls the loader, unless the last leader has left a value or an error since this caller looked.
     */
    async #lead(
        key: Key,
        id: string,
        lease: NativeLease | null,
        began: bigint,
        load: (context: LoadContext) => V | PromiseLike<V>,
        options: CheckedLoadOptions,
    ): Promise<V> {
        let leader: Leader | undefined;
        try {
            // Only after the lease was taken: a leader leaves its note before it ends its lease.
            if (!this.#look(key, options.staleSecs)) this.#throwFailure(key, id, began);
            leader = new Leader(this, id, lease, this.#beginLoad(key, options.lease));
            this.#leaders.set(id, leader);
            const found = this.#look(key, options.staleSecs);
            if (!found) return await this.#run(leader, key, load, options);
            if (!found.isFresh) this.#refresh(leader, key, load, options);
            else this.#end(leader);
            return found.value;
        } catch (error) {
            if (leader) this.#end(leader);
            else lease?.release();
            throw error;
        }
    }

    /** Loads the value in the background. */
    #refresh(
        leader: Leader,
        key: Key,
        load: (context: LoadContext) => V | PromiseLike<V>,
        options: CheckedLoadOptions,
    ): void {
        const { signal: _, onRefreshError = warnOfRefresh, ...others } = options;
        this.#run(leader, key, load, others).catch(onRefreshError);
    }

    async #run(
        leader: Leader,
        key: Key,
        load: (context: LoadContext) => V | PromiseLike<V>,
        options: CheckedLoadOptions,
    ): Promise<V> {
        const { ttlSecs, staleSecs } = options;
        const around = loading.getStore() ?? [];
        const controller = new AbortController();
        const aborted = new Aborted(options.signal);
        try {
            const context = { signal: controller.signal };
            const result = loading.run([...around, leader], async () => await load(context));
            const value = await aborted.or(result);
            const secs = ttlSecs === 0 ? 0 : Math.min(ttlSecs + staleSecs, SECS_MAX);
            if (value === undefined || (!leader.isOver && !this.#store(leader.load, value, secs))) {
                this.#unstored.delete(leader.id);
                this.#unstored.set(leader.id, process.hrtime.bigint());
            }
            return value;
        } catch (error) {
            if (aborted.isAborted) controller.abort(error);
            else this.#record(key, leader.id, error);
            throw error;
        } finally {
            aborted.dispose();
            this.#end(leader);
        }
    }

    #end(leader: Leader): void {
        if (this.#leaders.get(leader.id) === leader) this.#leaders.delete(leader.id);
        leader.end();
    }

    /** Stores a result. Returns false if it cannot be stored, also not by another caller. */
    #store(load: NativeLoad | null, value: V, secs: number): boolean {
        try {
            if (load) this.#cache.finish(load, value, secs);
            return load !== null;
        } catch (error) {
            // The caller receives the value although it is too large or there is no memory. The
            // statistics of the cache count it.
            if (!isNoRoom(error)) throw error;
            return false;
        }
    }

    /** Waits, at most until the leader of this thread has ended. */
    async #pause(millis: number, id: string, signal: AbortSignal | undefined): Promise<void> {
        const aborted = new Aborted(signal);
        let timer: NodeJS.Timeout | undefined;
        const pause = new Promise<void>((resolve) => (timer = setTimeout(resolve, millis)));
        const ended = this.#leaders.get(id)?.ended;
        try {
            await aborted.or(ended ? Promise.race([pause, ended]) : pause);
        } finally {
            clearTimeout(timer);
            aborted.dispose();
        }
    }

    /**
     * Looks for the value. A value that cannot be decoded, for example because another version of the
     * program has stored it, is a miss: the load replaces it.
     */
    #look(key: Key, staleSecs: number): { value: V; isFresh: boolean } | undefined {
        try {
            return this.#cache.look(key, staleSecs);
        } catch (error) {
            if (!isLarderError(error, 'ERR_LARDER_CODEC')) throw error;
            process.emitWarning(`${shown(key)} is loaded again: ${error.message}`, 'LarderWarning');
            return undefined;
        }
    }

    /** Takes the lease: null if another caller has it, undefined if there is no memory for it. */
    #takeLease(key: Key, millis: number): NativeLease | null | undefined {
        try {
            return this.#cache.lease(key, millis);
        } catch (error) {
            if (isLarderError(error, 'ERR_LARDER_STORE')) return undefined;
            throw error;
        }
    }

    #beginLoad(key: Key, lease: number): NativeLoad | null {
        try {
            return this.#cache.beginLoad(key, Math.max(1, Math.ceil(lease / 1000)));
        } catch (error) {
            // Without memory the value cannot be stored either, but the caller receives it.
            if (isLarderError(error, 'ERR_LARDER_STORE')) return null;
            throw error;
        }
    }

    #record(key: Key, id: string, error: unknown): void {
        const failedNanos = process.hrtime.bigint();
        this.#failures.delete(id);
        this.#failures.set(id, { failedNanos, error });
        try {
            const name = error instanceof Error ? error.name : 'Error';
            const text = `${failedNanos}\n${`${name}\n${messageOf(error)}`.slice(0, MESSAGE_MAX)}`;
            this.#cache.notes?.set(noteKey(key), Buffer.from(text) as never, NOTE_MILLIS);
        } catch {
            // Without a note, callers of other processes load the value themselves: there is no
            // memory for it, the loader has closed the cache, or the error has no text.
        }
    }

    /** Throws the error of a load that failed after a caller began. */
    #throwFailure(key: Key, id: string, began: bigint): void {
        for (const failed of [this.#failures.get(id), this.#readNote(key)]) {
            if (failed && began <= failed.failedNanos) throw failed.error;
        }
    }

    #readNote(key: Key): Failure | undefined {
        const note = this.#cache.notes?.get(noteKey(key));
        if (!Buffer.isBuffer(note)) return undefined;
        const [, nanos, name, message] = /^(\d{1,19})\n(.*)\n([^]*)$/.exec(note.toString()) ?? [];
        if (nanos === undefined) return undefined;
        const text = `the loader in another process failed: ${name}: ${message}`;
        const error = Object.assign(failure('ERR_LARDER_LOAD', text), { loader: name });
        return { failedNanos: BigInt(nanos), error };
    }

    #hasJustFailed(id: string): boolean {
        const failed = this.#failures.get(id);
        return failed !== undefined && millisSince(failed.failedNanos) < REFRESH_PAUSE;
    }

    /** Drops the errors that no caller waits for any more. */
    #forgetOldFailures(now: bigint): void {
        const isOld = (nanos: bigint): boolean => now - nanos >= BigInt(NOTE_MILLIS) * 1_000_000n;
        for (const [id, { failedNanos }] of this.#failures) {
            if (!isOld(failedNanos)) break;
            this.#failures.delete(id);
        }
        for (const [id, nanos] of this.#unstored) {
            if (!isOld(nanos)) break;
            this.#unstored.delete(id);
        }
    }
}

/**
 * What ends if a signal is aborted. A signal has one listener of all loads, because Node warns of a
 * leak if it has more than ten.
 */
class AbortList {
    static readonly #lists = new WeakMap<AbortSignal, AbortList>();
    readonly #ends = new Set<() => void>();
    readonly #listener = (): void => {
        for (const end of [...this.#ends]) end();
    };

    static of(signal: AbortSignal): AbortList {
        let list = AbortList.#lists.get(signal);
        if (!list) AbortList.#lists.set(signal, (list = new AbortList()));
        return list;
    }

    add(signal: AbortSignal, end: () => void): void {
        if (this.#ends.size === 0) signal.addEventListener('abort', this.#listener);
        this.#ends.add(end);
    }

    delete(signal: AbortSignal, end: () => void): void {
        this.#ends.delete(end);
        if (this.#ends.size === 0) signal.removeEventListener('abort', this.#listener);
    }
}

/** The part of a wait that an `AbortSignal` ends. */
class Aborted {
    readonly #signal: AbortSignal | undefined;
    #end: (() => void) | undefined;

    constructor(signal: AbortSignal | undefined) {
        this.#signal = signal;
    }

    get isAborted(): boolean {
        return this.#signal?.aborted ?? false;
    }

    /** Returns the result of a promise, or throws the reason of the signal. */
    or<T>(promise: Promise<T>): Promise<T> {
        const signal = this.#signal;
        if (!signal) return promise;
        return new Promise((resolve, reject) => {
            this.#end = () => reject(signal.reason);
            AbortList.of(signal).add(signal, this.#end);
            if (signal.aborted) reject(signal.reason);
            promise.then(resolve, reject);
        });
    }

    dispose(): void {
        if (this.#signal && this.#end) AbortList.of(this.#signal).delete(this.#signal, this.#end);
    }
}

/** Returns a key as text: a string and the bytes of its UTF-8 are the same key. */
function idOf(key: Key): string {
    return Buffer.from(key as string).toString('latin1');
}

/** The key of a note: programs in all languages use the same. */
function noteKey(key: Key): string {
    return `larder.failed.${createHash('sha256').update(key).digest('hex').slice(0, 32)}`;
}

function millisSince(nanos: bigint): number {
    return Number(process.hrtime.bigint() - nanos) / 1e6;
}

function warnOfRefresh(error: unknown): void {
    const message = error instanceof Error ? `${error.name}: ${error.message}` : shown(error);
    process.emitWarning(`a value could not be refreshed, so the old one stays: ${message}`, 'LarderWarning');
}
