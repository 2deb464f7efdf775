// @ts-check
import { fileURLToPath } from 'node:url';

/** @param {string} name */
const file = (name) => fileURLToPath(new URL(name, import.meta.url));

/** @type {import('next').NextConfig} */
const config = {
    cacheHandler: file('cache-handler.cjs'),
    cacheHandlers: { default: file('use-cache.cjs') },
    // Next.js keeps no copies of pages in the memory of each process.
    cacheMaxMemorySize: 0,
    // Native modules stay outside of the bundles.
    serverExternalPackages: ['larder-cache'],
};

export default config;
