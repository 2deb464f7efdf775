/** The times when tags of Next.js were invalidated, for all processes that share them. */

import { Cache } from '../cache';
import { isLarderError } from '../errors';
import { keyThatFits } from './names';

/** Milliseconds since 1970: entries made before `stale` are refreshed, before `expired` removed. */
interface Invalidation {
    stale?: number;
    expired?: number;
}

/** What the caller of `revalidateTag` chose: entries may be used for `expire` more seconds. */
export interface Durations {
    expire?: number;
}

/**
 * The invalidations of tags. They have their own memory, from which nothing is evicted: an entry
 * must not become valid again because the invalidation of its tag is gone.
 */
export class Tags {
    readonly #records: Cache<Invalidation>;
    readonly #forgetEntries: () => void;

    /** `forgetEntries` removes all entries that have tags. */
    constructor(entries: Cache, memory: number | string, forgetEntries: () => void) {
        const shared = entries.path === null ? {} : { shared: `${entries.path}.tags` };
        this.#records = new Cache({ ...shared, memory, evict: false });
        this.#forgetEntries = forgetEntries;
    }

    /** Invalidates tags: immediately, or with `durations`, so that their entries are refreshed. */
    invalidate(tags: string[], durations: Durations | undefined): void {
        const now = Date.now();
        for (const tag of tags) {
            const before = this.#records.get(keyThatFits(tag)) ?? {};
            if (durations === undefined) {
                this.#store(tag, { ...before, expired: now });
            } else {
                const { expire } = durations;
                const later = expire === undefined ? {} : { expired: now + expire * 1000 };
                this.#store(tag, { ...before, stale: now, ...later });
            }
        }
    }

    /** Returns the state of an entry with these tags that was made at `timestamp`. */
    stateOf(tags: readonly string[], timestamp: number): 'fresh' | 'stale' | 'expired' {
        const now = Date.now();
        let state: 'fresh' | 'stale' = 'fresh';
        for (const tag of tags) {
            if (tag === '') continue;
            const { stale = 0, expired = 0 } = this.#records.get(keyThatFits(tag)) ?? {};
            // The clock has milliseconds: an entry of the same one may be older.
            if (expired <= now && expired >= timestamp) return 'expired';
            if (stale >= timestamp) state = 'stale';
        }
        return state;
    }

    /** Returns when the last of these tags expired, 0 if none did. */
    lastExpiration(tags: readonly string[]): number {
        const times = tags.map((tag) => this.#records.get(keyThatFits(tag))?.expired ?? 0);
        return Math.max(0, ...times);
    }

    #store(tag: string, invalidation: Invalidation): void {
        try {
            this.#records.set(keyThatFits(tag), invalidation);
        } catch (error) {
            if (!isLarderError(error, 'ERR_LARDER_STORE')) throw error;
            // Without entries, the invalidations are not needed.
            this.#forgetEntries();
            this.#records.clear();
        }
    }
}
