/** Hits that are read in the memory of a larderd on the same machine, without a request. */

import { performance } from 'node:perf_hooks';

import { type Key, type NativeReader, native } from '../native';

/** An item in the memory. */
export type LocalHit = NonNullable<ReturnType<NativeReader['get']>>;

const TIMEOUT_MILLIS = 5000;

/**
 * The time until a server that does not share its memory is asked again; it doubles each time. A
 * near cache shares its memory as soon as it follows its origin.
 */
const FIRST_RETRY_MILLIS = 100;
const LAST_RETRY_MILLIS = 30_000;

/**
 * Reads items in the memory of the larderd at a unix socket, if it shares its memory. The first
 * read opens the memory in the background, and the first read after `renew` opens it again.
 */
export class LocalReads {
    readonly #path: string;
    #reader: NativeReader | null = null;
    #isOpening = false;
    /** When the memory is opened, by the clock `performance.now`. */
    #due = 0;
    #retryMillis = FIRST_RETRY_MILLIS;
    /** Counts the calls of `renew`: a memory that was opened before one of them is not used. */
    #generation = 0;
    /** The keys of changes in flight. Their reads follow them on the socket. */
    readonly #changes = new Map<string, number>();
    #changesOfAll = 0;

    constructor(path: string) {
        this.#path = path;
    }

    /** True if items are currently read in the memory. */
    get readsMemory(): boolean {
        return this.#reader?.readsMemory() ?? false;
    }

    /** Returns an item in the memory; null if the server must be asked. */
    get(key: Key, word: string): LocalHit | null {
        const reader = this.#reader;
        if (reader === null) {
            this.open();
            return null;
        }
        if (this.#changesOfAll > 0 || (this.#changes.size > 0 && this.#changes.has(word))) {
            return null;
        }
        return reader.get(key);
    }

    /** Begins a change of a key, or without a key, of all. Returns the function that ends it. */
    change(word?: string): () => void {
        if (word === undefined) {
            this.#changesOfAll++;
            return () => this.#changesOfAll--;
        }
        this.#changes.set(word, (this.#changes.get(word) ?? 0) + 1);
        return () => {
            const count = this.#changes.get(word)! - 1;
            if (count === 0) this.#changes.delete(word);
            else this.#changes.set(word, count);
        };
    }

    /** Opens the memory in the background, if that is due. */
    open(): void {
        if (this.#isOpening || this.#reader !== null || performance.now() < this.#due) return;
        this.#isOpening = true;
        const generation = this.#generation;
        native
            .openLocalReader(this.#path, TIMEOUT_MILLIS)
            .then(
                (reader) => {
                    if (generation === this.#generation && reader.readsMemory()) {
                        this.#reader = reader;
                    }
                },
                // The next request on the socket reports a server that cannot be reached.
                () => undefined,
            )
            .finally(() => {
                this.#isOpening = false;
                if (generation !== this.#generation) return;
                this.#due = performance.now() + this.#retryMillis;
                this.#retryMillis = Math.min(2 * this.#retryMillis, LAST_RETRY_MILLIS);
            });
    }

    /** Opens the memory again at the next read, because the server may be another one. */
    renew(): void {
        this.#generation++;
        this.#reader = null;
        this.#due = 0;
        this.#retryMillis = FIRST_RETRY_MILLIS;
    }

    /** Reads no more. */
    close(): void {
        this.renew();
        this.#due = Infinity;
    }
}
