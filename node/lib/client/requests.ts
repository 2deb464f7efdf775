/** The requests of a client: where they go, what they contain, what a fault of a server means. */

import { bytesOf } from '../bytes';
import { type Codec, Tag } from '../codec';
import { failure, isLarderError, shown, wrongType } from '../errors';
import { type Key, type NativeRing, native } from '../native';
import { ttlSecs } from '../options';
import { type WireKey, wireKey } from './keys';
import type { Found } from './loads';
import {
    type ClientOptions,
    type RequestOptions,
    type CheckedOptions,
    checkedOptions,
} from './options';
import { Code, Pending, type Reply, Shape, unexpectedReply } from './protocol';
import { Outcome, abortable, flagsOf, isUnavailable, outcome } from './replies';
import { Server } from './server';
import { type ServerSpec, addressesOf, ringName } from './servers';
import { decodedValue, encodedValue } from './values';

/** A longer exptime of memcached is a point in time. */
export const RELATIVE_SECS_MAX = 30 * 24 * 60 * 60;
/** The latest point in time of memcached, in 2038. Later items do not expire. */
const EXPTIME_MAX = 2 ** 31 - 1;

type Parse<T> = (reply: Reply) => T;

export class Requests<V> {
    readonly options: CheckedOptions;
    readonly servers: readonly Server[];
    isClosed = false;
    readonly #ring: NativeRing | undefined;
    readonly #prefix: string;
    readonly #codec: Codec | null;

    constructor(servers: ServerSpec | readonly ServerSpec[], options: ClientOptions) {
        this.options = checkedOptions(options);
        this.#prefix = this.options.prefix;
        this.#codec = this.options.codec;
        const addresses = addressesOf(servers);
        this.servers = addresses.map((address) => new Server(address, this.options));
        if (addresses.length > 1) {
            this.#ring = new native.Ring(
                addresses.map(ringName),
                addresses.map(({ weight }) => weight),
            );
        }
    }

    /** Makes the value of a response; undefined for a miss, and for the placeholder of a load. */
    readonly value: Parse<V | undefined> = (reply) => {
        if (reply.code === Code.miss) return undefined;
        if (reply.code !== Code.value) throw unexpectedReply(reply);
        if (reply.isPlaceholder) return undefined;
        return decodedValue(this.#codec, reply.buffer, reply.start, reply.end, reply.flags) as V;
    };

    /** Checks that a request can begin, and returns its key. */
    wire(key: Key, options: RequestOptions | undefined): WireKey {
        this.checkOpen(options);
        return wireKey(this.#prefix, key);
    }

    checkOpen(options: RequestOptions | undefined): void {
        if (this.isClosed) throw failure('ERR_LARDER_CLOSED', 'the client was closed');
        options?.signal?.throwIfAborted();
    }

    /** Returns the server of a key. As in libmemcached, the prefix does not matter. */
    owner(key: Key): Server {
        return this.servers[this.#ring === undefined ? 0 : this.#ring.ownerOf(key)]!;
    }

    /** Returns the value of a key in the memory of its server; undefined if it must be asked. */
    local(server: Server, wire: WireKey): V | undefined {
        const { word, flags } = wire;
        const key = flags === '' ? word : Buffer.from(word as string, 'base64');
        const hit = server.local!.get(key, nameOf(wire));
        // An empty item without flags may be the placeholder of a load. The server knows that.
        if (hit === null || (hit.flags === Tag.bytes && hit.value.length === 0)) return undefined;
        if (hit.flags === Tag.bytes) return hit.value as V;
        return decodedValue(this.#codec, hit.value, 0, hit.value.length, hit.flags) as V;
    }

    /** Sends a meta request, and returns what `parse` makes of the response. */
    send<T>(
        server: Server,
        wire: WireKey,
        verb: string,
        flags: string,
        parse: Parse<T>,
    ): Promise<T> {
        return new Promise((resolve, reject) => {
            const pending = new Pending(Shape.meta, parse, resolve, reject);
            server.send(pending, verb, wire.word, wire.flags + flags);
        });
    }

    /**
     * Reads something of a key. `missed` is the result if the server is away and that is a miss.
     */
    async read<T>(
        key: Key,
        flags: string,
        parse: Parse<T>,
        missed: T,
        options?: RequestOptions,
    ): Promise<T> {
        const wire = this.wire(key, options);
        const result = this.send(this.owner(key), wire, 'mg ', flags, parse);
        return this.kindly(abortable(result, options?.signal), missed);
    }

    /** Sends a request that changes an item. Later reads of this client see the change. */
    async change<T>(
        key: Key,
        verb: string,
        flags: string,
        parse: Parse<T>,
        options?: RequestOptions,
        body?: string | Buffer,
    ): Promise<T> {
        const wire = this.wire(key, options);
        const server = this.owner(key);
        const result = new Promise<T>((resolve, reject) => {
            const pending = new Pending(Shape.meta, parse, resolve, reject);
            server.send(pending, verb, wire.word, lengthOf(body) + wire.flags + flags, body);
            // Only of a request that is on its way.
            pending.onEnd = server.local?.change(nameOf(wire));
        });
        return abortable(result, options?.signal);
    }

    /**
     * Stores a value, and returns the outcome; `missed` if the server is away and that is a miss.
     */
    store(
        key: Key,
        value: unknown,
        ttl: number | undefined,
        flags: string,
        missed: Outcome | undefined,
        options?: RequestOptions,
    ): Promise<Outcome> {
        return this.#storeFor(key, value, this.secsOf(ttl), flags, missed, options);
    }

    /** Stores a value on the condition that the item has a cas token, or is absent. */
    async storeIf(key: Key, value: unknown, secs: number, cas: string): Promise<boolean> {
        const condition = cas === '' ? ' ME' : ` C${cas}`;
        return (
            (await this.#storeFor(key, value, secs, condition, Outcome.notStored)) === Outcome.done
        );
    }

    async #storeFor(
        key: Key,
        value: unknown,
        secs: number,
        flags: string,
        missed: Outcome | undefined,
        options?: RequestOptions,
    ): Promise<Outcome> {
        const { bytes, flags: tag } = encodedValue(this.#codec, value);
        const words = ` F${tag} T${exptime(secs)}${flags}`;
        const stored = this.change(key, 'ms ', words, outcome, options, bytes as string | Buffer);
        return missed === undefined ? stored : this.kindly(stored, missed);
    }

    /** Adds text or bytes to a value of the same type. */
    async extend(
        key: Key,
        part: string | Uint8Array,
        mode: string,
        options?: RequestOptions,
    ): Promise<boolean> {
        const isText = typeof part === 'string';
        if (
            !isText &&
            !(typeof part === 'object' && part !== null && bytesOf(part) !== undefined)
        ) {
            throw wrongType(`only text and bytes can be added to a value, found ${shown(part)}`);
        }
        const { bytes, flags: tag } = encodedValue(null, part);
        const flags = await this.read(key, ' f', flagsOf, undefined, options);
        if (flags === undefined) return false;
        if (flags !== tag) {
            const kind = isText ? 'text' : 'bytes';
            throw wrongType(
                `the value of ${shown(key)} is not ${kind}, so ${kind} cannot be added to it`,
            );
        }
        const added = this.change(key, 'ms ', mode, outcome, options, bytes as string | Buffer);
        return (await this.kindly(added, Outcome.notStored)) === Outcome.done;
    }

    /** Reads several keys. The requests to all servers are sent together. */
    gather(
        keys: readonly Key[],
        values: (V | undefined)[],
        options?: RequestOptions,
    ): Promise<void> {
        const wires = keys.map((key) => this.wire(key, options));
        return new Promise((resolve, reject) => {
            let missing = 1;
            let fault: unknown;
            const end = (): void => {
                if (--missing > 0) return;
                if (fault === undefined) resolve();
                else reject(fault as Error);
            };
            const fail = (error: unknown): void => {
                if (!this.options.hidesFaults || !isUnavailable(error)) fault ??= error;
                end();
            };
            for (const [at, wire] of wires.entries()) {
                missing++;
                try {
                    const server = this.owner(keys[at]!);
                    const found = server.local === undefined ? undefined : this.local(server, wire);
                    if (found !== undefined) {
                        values[at] = found;
                        end();
                        continue;
                    }
                    const receive = (value: V | undefined): void => {
                        values[at] = value;
                        end();
                    };
                    const pending = new Pending(Shape.meta, this.value, receive, fail);
                    server.send(pending, 'mg ', wire.word, `${wire.flags} v f`);
                } catch (error) {
                    fail(error);
                }
            }
            end();
        });
    }

    /** Looks for the value of a load: see `loads.ts`. */
    async find(key: Key, leaseSecs: number, staleSecs: number): Promise<Found> {
        const wire = this.wire(key, undefined);
        const server = this.owner(key);
        if (staleSecs === 0 && server.local !== undefined) {
            const value = localOf(() => this.local(server, wire));
            if (value !== undefined) {
                return { value, isWon: false, isValue: true, isStale: false, cas: '' };
            }
        }
        const refresh = staleSecs > 0 ? ` R${staleSecs}` : '';
        const flags = ` v f c N${leaseSecs}${refresh}`;
        return this.send(server, wire, 'mg ', flags, (reply) => this.#found(key, reply));
    }

    #found(key: Key, reply: Reply): Found {
        const { isWon, isStale, cas } = reply;
        const isValue = reply.code === Code.value && !reply.isPlaceholder;
        try {
            return { value: this.value(reply), isWon, isValue, isStale, cas };
        } catch (error) {
            if (!isLarderError(error, 'ERR_LARDER_CODEC')) throw error;
            // Another version of the program may have stored it. The load replaces it.
            process.emitWarning(`${shown(key)} is loaded again: ${error.message}`, 'LarderWarning');
            return { value: undefined, isWon: true, isValue: false, isStale, cas };
        }
    }

    /** Sends a line to each server, and returns the results by the names of the servers. */
    async ofAll<T>(
        line: string,
        shape: Shape,
        parse: Parse<T>,
        options?: RequestOptions,
        begin?: (server: Server) => (() => void) | undefined,
    ): Promise<Map<string, T>> {
        this.checkOpen(options);
        const results = this.servers.map((server) => {
            const sent = new Promise<T>((resolve, reject) => {
                const pending = new Pending(shape, parse, resolve, reject);
                server.send(pending, line, '', '');
                pending.onEnd = begin?.(server);
            });
            return sent.then((result) => [server.address.name, result] as const);
        });
        return new Map(await abortable(allOf(results), options?.signal));
    }

    /** Returns the result of a request; `missed` if its server is away and that is a miss. */
    kindly<T>(result: Promise<T>, missed: T): Promise<T> {
        if (!this.options.hidesFaults) return result;
        return result.catch((error: unknown) => {
            if (!isUnavailable(error)) throw error;
            return missed;
        });
    }

    secsOf(ttl: number | undefined): number {
        return ttl === undefined ? this.options.ttlSecs : ttlSecs(ttl);
    }
}

/** Returns the results, or rejects with the first error when all have ended. */
export async function allOf<T>(promises: Promise<T>[]): Promise<T[]> {
    const results = await Promise.allSettled(promises);
    return results.map((result) => {
        if (result.status === 'rejected') throw result.reason;
        return result.value;
    });
}

/** Returns text that identifies a key. */
export function nameOf({ word, flags }: WireKey): string {
    if (typeof word === 'string') return word + flags;
    return `${word.toString('latin1')} raw`;
}

/** Returns a time to live in the form of memcached. */
export function exptime(secs: number): number {
    if (secs <= RELATIVE_SECS_MAX) return secs;
    const time = Math.floor(Date.now() / 1000) + secs;
    return time > EXPTIME_MAX ? 0 : time;
}

/** Returns the word of a request for the length of its value. */
function lengthOf(body: string | Buffer | undefined): string {
    if (body === undefined) return '';
    return ` ${typeof body === 'string' ? Buffer.byteLength(body) : body.length}`;
}

/** Returns a local value for a load; undefined if it cannot be decoded. */
function localOf<T>(read: () => T | undefined): T | undefined {
    try {
        return read();
    } catch (error) {
        if (!isLarderError(error, 'ERR_LARDER_CODEC')) throw error;
        return undefined;
    }
}
