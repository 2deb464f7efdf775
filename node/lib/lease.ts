/** The class `Lease`. */

import type { NativeLease } from './native';

/** The exclusive right to do something for a key. */
export class Lease {
    readonly #native: NativeLease;

    /** @internal */
    constructor(lease: NativeLease) {
        this.#native = lease;
    }

    /** Ends the lease. Returns false if it had already ended. */
    release(): boolean {
        return this.#native.release();
    }

    [Symbol.dispose](): void {
        this.release();
    }
}
