/** Keys of other packages as keys of a cache, which have at most 250 bytes. */

import { createHash } from 'node:crypto';

const KEY_BYTES_MAX = 250;
/** A `#` and a SHA-256 in base64. */
const DIGEST_BYTES = 44;

/**
 * Returns a key that fits into a cache: the key itself, or if it is longer than 250 bytes, its
 * first 206 bytes and a digest of all of it. A shortened key that is passed again stays as it is.
 */
export function keyThatFits(key: string): string {
    // A character of UTF-16 has at most 3 bytes in UTF-8.
    if (key.length * 3 <= KEY_BYTES_MAX) return key;
    const bytes = Buffer.from(key);
    if (bytes.length <= KEY_BYTES_MAX) return key;
    let end = KEY_BYTES_MAX - DIGEST_BYTES;
    while ((bytes[end]! & 0xc0) === 0x80) end--;
    const digest = createHash('sha256').update(bytes).digest('base64url');
    return `${bytes.toString('utf8', 0, end)}#${digest}`;
}
