/** The package larder-cache: README.md describes it. */

export { Cache, type CacheOptions, type MemoryUsage } from './cache';
export type { Codec } from './codec';
export { type ErrorCode, isLarderError, type LarderError } from './errors';
export { Lease } from './lease';
export type { LoadContext, LoadOptions } from './load';
export type { Key } from './native';
