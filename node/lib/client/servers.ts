/** Addresses of servers. */

import { shown, wrongType, wrongValue } from '../errors';

/**
 * A server: `'host:port'`, `'host'`, `'[::1]:port'`, `'unix:/path'`, `'/path'`, or an object. A
 * server with twice the `weight` of another one receives twice the keys; by default it is 1.
 */
export type ServerSpec =
    | string
    | { host: string; port?: number; weight?: number }
    | { path: string; weight?: number };

export const DEFAULT_PORT = 11211;
const PORT_MAX = 65535;
const WEIGHT_MAX = 2 ** 32 - 1;

/** A server of a client. */
export interface Address {
    /** `host:port`, or the path of a unix socket: the name of the server in results and errors. */
    readonly name: string;
    readonly host?: string;
    readonly port?: number;
    readonly path?: string;
    readonly weight: number;
}

/** Returns the addresses for the first argument of a client. */
export function addressesOf(servers: ServerSpec | readonly ServerSpec[]): Address[] {
    const list = Array.isArray(servers)
        ? (servers as readonly ServerSpec[])
        : [servers as ServerSpec];
    if (list.length === 0) throw wrongValue('servers is empty, expected one or several servers');
    const addresses = list.map(addressOf);
    const names = new Set<string>();
    for (const { name } of addresses) {
        if (names.has(name)) throw wrongValue(`servers contains ${shown(name)} twice`);
        names.add(name);
    }
    return addresses;
}

/**
 * Returns the name of a server on libmemcached's ring: without the default port, and with the port
 * 0 for a unix socket.
 */
export function ringName({ host, port, path }: Address): string {
    if (path !== undefined) return `${path}:0`;
    return port === DEFAULT_PORT ? host! : `${host}:${port}`;
}

function addressOf(spec: ServerSpec): Address {
    if (typeof spec === 'string') return addressOfText(spec);
    if (typeof spec !== 'object' || spec === null) {
        throw wrongType(
            `a server is text such as 'host:11211', or { host, port }, found ${shown(spec)}`,
        );
    }
    const { path, host, port = DEFAULT_PORT, weight = 1 } = spec as Partial<Address>;
    if (!Number.isInteger(weight) || weight < 1 || weight > WEIGHT_MAX) {
        throw wrongValue(
            `a server has the weight ${shown(weight)}, expected an integer of 1 or more`,
        );
    }
    if (path !== undefined) return { ...unixAddress(path), weight };
    if (typeof host !== 'string' || host === '') {
        throw wrongType(`the host of a server is ${shown(host)}, expected a name or an address`);
    }
    return { ...tcpAddress(host, checkedPort(port, host)), weight };
}

function addressOfText(text: string): Address {
    if (text.startsWith('unix:')) return unixAddress(text.slice('unix:'.length));
    if (text.startsWith('/')) return unixAddress(text);
    const [, bracketed, host, port] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(.*))?$/.exec(text) ?? [];
    const name = bracketed ?? host;
    if (name === undefined) {
        throw wrongValue(
            `${shown(text)} is no server, expected 'host:port', 'host', '[IPv6]:port', ` +
                "'unix:/path' or '/path'",
        );
    }
    return tcpAddress(name, port === undefined ? DEFAULT_PORT : portOfText(port, text));
}

function tcpAddress(host: string, port: number): Address {
    const name = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
    return { name, host, port, weight: 1 };
}

function unixAddress(path: string): Address {
    if (typeof path !== 'string' || path === '') {
        throw wrongValue(
            `the path of a unix socket is ${shown(path)}, expected for example '/run/larder.sock'`,
        );
    }
    return { name: path, path, weight: 1 };
}

function portOfText(port: string, text: string): number {
    return checkedPort(/^\d{1,5}$/.test(port) ? Number(port) : port, text);
}

function checkedPort(port: unknown, server: string): number {
    if (typeof port !== 'number' || !Number.isInteger(port) || port < 1 || port > PORT_MAX) {
        throw wrongValue(`${shown(server)} has the port ${shown(port)}, expected 1 to ${PORT_MAX}`);
    }
    return port;
}
