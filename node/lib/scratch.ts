/**
 * The memory into which the native `get` copies a value. Its comment in `src/scratch.rs` says why it
 * exists. Each thread has one.
 */

import { markAsUntransferable } from 'node:worker_threads';

import { native } from './native';

/** The numbers of a report: what a get has found, where it begins, how long it is, its flags. */
export const enum Report {
    kind,
    at,
    length,
    flags,
}

export const enum Found {
    nothing,
    copied,
    tooLong,
}

// As Node's own pool. A Buffer of a few bytes keeps its slab in memory, so a slab is small.
const SLAB_BYTES = 8192;
/** A longer value has memory of its own. */
export const POOLED_BYTES_MAX = SLAB_BYTES / 2;

export const report = new Uint32Array(4);
export const scratch = new native.Scratch(report);

/** The slab; replaced when it is full. */
export let slab = Buffer.alloc(0);

/** Begins a new slab. The old one lives as long as a Buffer that is a part of it. */
export function renewSlab(): void {
    // Not a part of Node's pool, because the native module writes to all of it.
    slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
    // A transfer of one Buffer would empty all others of its slab.
    markAsUntransferable(slab.buffer);
    scratch.renew(slab);
}

renewSlab();
