/** The package larder-cache: README.md describes it. */

export { Cache, type CacheOptions, type MemoryUsage } from './cache';
export { Client } from './client/client';
export type { ClientOptions, RequestOptions } from './client/options';
export type { ServerStats } from './client/replies';
export type { ServerSpec } from './client/servers';
export type { Codec } from './codec';
export { type ErrorCode, isLarderError, type LarderError } from './errors';
export { Lease } from './lease';
export type { LoadContext, LoadOptions } from './load';
export type { Key } from './native';
