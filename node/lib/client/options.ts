/** The options of a client. */

import type { ConnectionOptions as TlsOptions } from 'node:tls';

import { type Codec, codecOf } from '../codec';
import { shown, wrongType, wrongValue } from '../errors';
import { millisOf, sizeOf, ttlSecs } from '../options';
import { checkedPrefix } from './keys';
import type { ServerOptions } from './server';

/** The options of a client. All times are in milliseconds. */
export interface ClientOptions {
    /** The codec of values that are not text, bytes, numbers, booleans or null; `null` for none. */
    codec?: Codec | 'json' | null;
    /** The default time to live; by default `Infinity`. */
    ttl?: number;
    /** Text before all keys. It counts for their length, not for their placement on servers. */
    prefix?: string;
    /** The longest time until the response to a request, including a new connection: 1000. */
    timeout?: number;
    /** The longest time until a server accepts a connection, with TLS and the login: 1000. */
    connectTimeout?: number;
    /** After a fault of a server its requests fail for this time without an attempt: 1000. */
    retryDelay?: number;
    /**
     * `'error'` (default): requests fail while their server is unavailable. `'miss'`: reads find
     * nothing, and changes return the result of an absent key, or have no effect.
     */
    onUnavailable?: 'error' | 'miss';
    /** The number of connections to each server: 1. */
    connections?: number;
    /** The name and the password of a login: users.md describes the users of larderd. */
    username?: string;
    password?: string;
    /** TLS to servers with a host: true, or the options of `tls.connect`. */
    tls?: boolean | TlsOptions;
    /** False: hits are not read in the memory of a larderd at a unix socket. */
    local?: boolean;
    /** A longer value in a response is an error: bytes or text, by default `'1G'`. */
    maxValue?: number | string;
    /** How many requests of a connection can wait for responses: 100,000. */
    maxPending?: number;
    /** How many bytes of a connection can wait until they are sent: bytes or text, `'256M'`. */
    maxQueued?: number | string;
}

/** The options of one request. */
export interface RequestOptions {
    /** Ends the wait for the response. The server may execute the request nevertheless. */
    signal?: AbortSignal;
}

/** The options after their check. */
export interface CheckedOptions extends ServerOptions {
    readonly codec: Codec | null;
    readonly ttlSecs: number;
    readonly prefix: string;
    readonly hidesFaults: boolean;
}

const CONNECTIONS_MAX = 1024;
/** The longest time of a timer of Node; `Infinity` becomes it. */
const MILLIS_MAX = 2 ** 31 - 1;

const NAMES: ReadonlySet<string> = new Set<keyof ClientOptions>([
    'codec',
    'ttl',
    'prefix',
    'timeout',
    'connectTimeout',
    'retryDelay',
    'onUnavailable',
    'connections',
    'username',
    'password',
    'tls',
    'local',
    'maxValue',
    'maxPending',
    'maxQueued',
]);

/** Checks the options of a client. */
export function checkedOptions(options: ClientOptions): CheckedOptions {
    if (typeof options !== 'object' || options === null) {
        throw wrongType(`the options of a client are an object, found ${shown(options)}`);
    }
    for (const name of Object.keys(options)) {
        if (!NAMES.has(name)) throw wrongValue(`${shown(name)} is no option of a client`);
    }
    const {
        ttl = Infinity,
        prefix = '',
        onUnavailable = 'error',
        connections = 1,
        local = true,
    } = options;
    const { maxPending = 100_000 } = options;
    if (onUnavailable !== 'error' && onUnavailable !== 'miss') {
        throw wrongValue(`onUnavailable is ${shown(onUnavailable)}, expected 'error' or 'miss'`);
    }
    return {
        codec: codecOf(options.codec),
        ttlSecs: ttlSecs(ttl),
        prefix: checkedPrefix(prefix),
        timeout: timeOf(options.timeout, 'timeout'),
        connectTimeout: timeOf(options.connectTimeout, 'connectTimeout'),
        retryDelay: millisOf(options.retryDelay ?? 1000, 'retryDelay'),
        hidesFaults: onUnavailable === 'miss',
        connections: countOf(connections, 'connections', CONNECTIONS_MAX),
        login: loginOf(options.username, options.password),
        tls: tlsOf(options.tls),
        local: Boolean(local),
        maxValue: sizeOf(options.maxValue ?? '1G', 'maxValue'),
        maxPending: countOf(maxPending, 'maxPending', Number.MAX_SAFE_INTEGER),
        maxQueued: sizeOf(options.maxQueued ?? '256M', 'maxQueued'),
    };
}

function timeOf(value: number | undefined, name: string): number {
    return Math.min(millisOf(value ?? 1000, name, 1), MILLIS_MAX);
}

function countOf(value: unknown, name: string, max: number): number {
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > max) {
        throw wrongValue(`${name} is ${shown(value)}, expected an integer from 1 to ${max}`);
    }
    return value;
}

function tlsOf(option: unknown): TlsOptions | undefined {
    if (option === undefined || option === false) return undefined;
    if (option === true) return {};
    if (typeof option === 'object' && option !== null) return option as TlsOptions;
    throw wrongType(`tls is true, or the options of tls.connect, found ${shown(option)}`);
}

/**
 * Returns the request that logs in: a store whose value is the user and the password. A server that
 * needs no login executes it, so the item has expired already.
 */
function loginOf(username: unknown, password: unknown): string | undefined {
    if (username === undefined && password === undefined) return undefined;
    if (typeof username !== 'string' || typeof password !== 'string') {
        throw wrongType('username and password are text, and both are needed for a login');
    }
    if (username === '' || /[ \r\n]/.test(username + password)) {
        throw wrongValue('username and password are text without blanks, which would end them');
    }
    const value = `${username} ${password}`;
    return `set larder_login 0 -1 ${Buffer.byteLength(value)}\r\n${value}\r\n`;
}
