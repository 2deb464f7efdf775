/**
 * Loads by several clients: one computes the value of a key while the others wait for it.
 *
 * The first client that misses a key creates an empty item, the placeholder, with the flag `N` of
 * the meta protocol, and receives the recache token with it. It calls its loader and stores the
 * value on the condition that the item still has the cas token of the placeholder. Other clients
 * find the placeholder without the recache token: they look again after 1, 2, 4 … up to 50
 * milliseconds. If the loader fails, the client removes the placeholder, and one that waits
 * becomes the next to load. If its process is killed, the placeholder expires after the lease.
 *
 * An item also lives `stale` milliseconds after its time to live. The flag `R` gives the recache
 * token to the first client that reads it in this time. That client loads the value in the
 * background.
 *
 * Callers of one client that wait for the same key wait for one promise.
 */

import { AsyncLocalStorage } from 'node:async_hooks';

import { failure, shown } from '../errors';
import type { LoadContext, LoadOptions } from '../load';
import type { Key } from '../native';
import { abortable, isNotStored, isUnavailable } from './replies';

/** What a client finds when it looks for the value of a load. */
export interface Found {
    /** The value; undefined for a placeholder, or if it cannot be decoded. */
    value: unknown;
    /** True if this client received the recache token. */
    isWon: boolean;
    /** True if the value is valid: it is no placeholder. */
    isValue: boolean;
    /** True if the item is marked stale. */
    isStale: boolean;
    /** The cas token, as digits; empty if there is no item. */
    cas: string;
}

/** What loads need of a client. */
export interface LoadedClient {
    find(key: Key, leaseSecs: number, staleSecs: number): Promise<Found>;
    storeIf(key: Key, value: unknown, secs: number, cas: string): Promise<boolean>;
    removeIf(key: Key, cas: string): Promise<unknown>;
    /** True if a fault of the server is a miss. */
    readonly hidesFaults: boolean;
}

export interface CheckedLoad extends LoadOptions {
    ttlSecs: number;
    staleSecs: number;
    lease: number;
    wait: number;
}

type Loader = (context: LoadContext) => unknown;

/** The load of one key in this process. */
interface Flight {
    promise: Promise<unknown>;
    readonly controller: AbortController;
    callers: number;
}

const FIRST_PAUSE = 1;
const LONGEST_PAUSE = 50;

/** How long a loader waits for the value of another key: two loaders may wait for each other. */
const NESTED_WAIT = 1000;

/** The loads around the running code. */
const loading = new AsyncLocalStorage<readonly { loads: object; id: string }[]>();

/** The loads of a client. */
export class ClientLoads {
    readonly #client: LoadedClient;
    readonly #flights = new Map<string, Flight>();

    constructor(client: LoadedClient) {
        this.#client = client;
    }

    /** Returns the value of a key; on a miss, the result of `load`. `id` identifies the key. */
    async load(key: Key, id: string, load: Loader, options: CheckedLoad): Promise<unknown> {
        const { signal } = options;
        signal?.throwIfAborted();
        const around = loading.getStore() ?? [];
        if (around.some((other) => other.loads === this && other.id === id)) {
            throw failure('ERR_LARDER_RECURSIVE', `the loader of ${shown(key)} waits for itself`);
        }
        const wait = around.length > 0 ? Math.min(options.wait, NESTED_WAIT) : options.wait;
        const running = this.#flights.get(id);
        if (running === undefined) {
            return this.#join(id, this.#begin(key, id, load, { ...options, wait }), signal);
        }
        const joined = this.#join(id, running, signal);
        const waited = await settledWithin(joined, wait);
        if (waited) return joined;
        joined.catch(() => undefined);
        return load({ signal: signal ?? new AbortController().signal });
    }

    #begin(key: Key, id: string, load: Loader, options: CheckedLoad): Flight {
        const controller = new AbortController();
        const around = [...(loading.getStore() ?? []), { loads: this, id }];
        const inside: Loader = (context) => loading.run(around, async () => await load(context));
        const promise = this.#run(key, inside, options, controller).finally(() => {
            this.#forget(id, flight);
        });
        const flight: Flight = { promise, controller, callers: 0 };
        this.#flights.set(id, flight);
        return flight;
    }

    /** Waits for a load. It is aborted when all its callers are. */
    async #join(id: string, flight: Flight, signal: AbortSignal | undefined): Promise<unknown> {
        flight.callers++;
        try {
            return await abortable(flight.promise, signal);
        } finally {
            if (--flight.callers === 0 && signal?.aborted) {
                this.#forget(id, flight);
                flight.controller.abort(signal.reason);
            }
        }
    }

    #forget(id: string, flight: Flight): void {
        if (this.#flights.get(id) === flight) this.#flights.delete(id);
    }

    async #run(
        key: Key,
        load: Loader,
        options: CheckedLoad,
        controller: AbortController,
    ): Promise<unknown> {
        const { staleSecs, wait } = options;
        const leaseSecs = Math.max(1, Math.ceil(options.lease / 1000));
        const end = performance.now() + wait;
        for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
            let found: Found;
            try {
                found = await this.#client.find(key, leaseSecs, staleSecs);
            } catch (error) {
                if (!this.#client.hidesFaults || !isUnavailable(error)) throw error;
                return load({ signal: controller.signal });
            }
            if (found.isValue && !(found.isStale && staleSecs === 0)) {
                if (found.isWon) this.#refresh(key, load, options, found.cas);
                return found.value;
            }
            if (found.isWon || found.cas === '' || performance.now() >= end) {
                return this.#lead(key, load, options, found.cas, controller);
            }
            await sleep(pause, controller.signal);
        }
    }

    /** Calls the loader, and stores its result unless the key was changed since. */
    async #lead(
        key: Key,
        load: Loader,
        { ttlSecs, staleSecs }: CheckedLoad,
        cas: string,
        controller: AbortController,
    ): Promise<unknown> {
        let isStored = false;
        try {
            const { signal } = controller;
            const value = await abortable(Promise.resolve(load({ signal })), signal);
            if (value !== undefined) {
                await this.#store(key, value, ttlSecs === 0 ? 0 : ttlSecs + staleSecs, cas);
                isStored = true;
            }
            return value;
        } finally {
            // The next client loads the value. A fault of the server is not the loader's.
            if (!isStored && cas !== '') {
                await this.#client.removeIf(key, cas).catch(() => undefined);
            }
        }
    }

    async #store(key: Key, value: unknown, secs: number, cas: string): Promise<void> {
        try {
            await this.#client.storeIf(key, value, secs, cas);
        } catch (error) {
            // The caller receives the value although it is too large, or the server is away.
            if (!isNotStored(error) && !isUnavailable(error)) throw error;
        }
    }

    /** Loads the value in the background. If that fails, the old value stays until it expires. */
    #refresh(key: Key, load: Loader, options: CheckedLoad, cas: string): void {
        const { onRefreshError = warnOfRefresh, ttlSecs, staleSecs } = options;
        const refreshed = Promise.resolve(load({ signal: new AbortController().signal }));
        refreshed
            .then(async (value) => {
                if (value !== undefined) await this.#store(key, value, ttlSecs + staleSecs, cas);
            })
            .catch(onRefreshError);
    }
}

/** True if a promise is settled within some milliseconds. */
async function settledWithin(promise: Promise<unknown>, millis: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const isOver = new Promise<boolean>(
        (resolve) => (timer = setTimeout(resolve, Math.min(millis, 2 ** 31 - 1), false)),
    );
    try {
        return await Promise.race([promise.then(yes, yes), isOver]);
    } finally {
        clearTimeout(timer);
    }
}

function yes(): boolean {
    return true;
}

async function sleep(millis: number, signal: AbortSignal): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    try {
        await abortable(
            new Promise<void>((resolve) => (timer = setTimeout(resolve, millis))),
            signal,
        );
    } finally {
        clearTimeout(timer);
    }
}

function warnOfRefresh(error: unknown): void {
    const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    process.emitWarning(
        `a value could not be refreshed, so the old one stays: ${message}`,
        'LarderWarning',
    );
}
