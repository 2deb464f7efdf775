// Values of all types and sizes, and the codecs.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Cache } from 'larder-cache';

import { newPath, refuses } from './support.mjs';

const ITEM_MAX = 1 << 20;

function cacheOf(options) {
    return new Cache({ memory: '16M', ...options });
}

/** Bytes that differ at all positions in which a copy could go wrong. */
function bytesFor(length, seed = 1) {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; at += 1) bytes[at] = (at * 31 + (at >> 8) * 7 + seed) & 255;
    return bytes;
}

/** A codec for objects of the form `{ bytes }`, which shows what `decode` receives. */
const holder = {
    tag: 14,
    encode: ({ bytes }) => bytes,
    decode: (bytes) => ({ bytes }),
};

const SIZES = [0, 1, 99, 1000, 4083, 4091, 4092, 4095, 4096, 4097, 8191, 8192, 8193, 65_536, 600_000];

for (const size of SIZES) {
    test(`bytes, text, JSON and encoded values with ${size} bytes come back`, () => {
        const cache = cacheOf();
        const coded = cacheOf({ codec: holder });
        const bytes = bytesFor(size);
        const ascii = 'x'.repeat(size);
        const wide = '\u{1f600}'.repeat(Math.floor(size / 4)) + 'ü';
        // Twice, so that the second round finds the slab at another position.
        for (let round = 0; round < 2; round += 1) {
            assert.deepEqual(cache.set('bytes', bytes).get('bytes'), bytes);
            assert.ok(Buffer.isBuffer(cache.get('bytes')));
            assert.equal(cache.set('ascii', ascii).get('ascii'), ascii);
            assert.equal(cache.set('wide', wide).get('wide'), wide);
            assert.deepEqual(cache.set('json', { wide }).get('json'), { wide });
            assert.deepEqual(coded.set('k', { bytes }).get('k'), { bytes });
            assert.deepEqual(cache.peek('bytes'), bytes);
            assert.deepEqual(cache.getMany(['bytes', 'ascii']).get('bytes'), bytes);
            cache.set('small', bytesFor(7)).get('small');
        }
    });
}

test('the longest item is stored, and a longer one is refused and removes the old one', () => {
    const cache = cacheOf();
    const longest = ITEM_MAX - 200;
    cache.set('k', bytesFor(longest));
    assert.deepEqual(cache.get('k'), bytesFor(longest));
    refuses('ERR_LARDER_TOO_LARGE', () => cache.set('k', bytesFor(ITEM_MAX + 1)));
    assert.equal(cache.get('k'), undefined);
    assert.throws(() => cache.set('k', 'x'.repeat(ITEM_MAX + 1)), RangeError);
    assert.throws(() => cache.set('k', { text: 'x'.repeat(ITEM_MAX + 1) }), RangeError);
    const large = cacheOf({ itemMax: '4M', memory: '64M' });
    assert.deepEqual(large.set('k', bytesFor(3 << 20)).get('k'), bytesFor(3 << 20));
});

test('an array that was returned keeps its contents', () => {
    const cache = cacheOf();
    const kept = [];
    for (let size = 0; size < 300; size += 1) {
        cache.set(`k${size}`, bytesFor(size * 17, size));
        kept.push(cache.get(`k${size}`));
    }
    for (let round = 0; round < 10_000; round += 1) {
        cache.set('other', bytesFor(round % 5000, round));
        cache.get('other');
    }
    for (const [size, bytes] of kept.entries()) assert.deepEqual(bytes, bytesFor(size * 17, size));
});

test('two results share no bytes, and the caller may write to a result', () => {
    const cache = cacheOf().set('k', bytesFor(100));
    const one = cache.get('k');
    const other = cache.get('k');
    one.fill(0);
    assert.deepEqual(other, bytesFor(100));
    assert.deepEqual(cache.get('k'), bytesFor(100));
});

/** Node 18 and 20 copy a buffer that cannot be transferred, newer versions throw. */
function transfer(buffer) {
    try {
        structuredClone(buffer, { transfer: [buffer] });
    } catch (error) {
        assert.equal(error.name, 'DataCloneError');
    }
}

test('a result whose memory was transferred harms no later read', () => {
    const cache = cacheOf();
    cache.set('bytes', bytesFor(100)).set('text', 'text').set('json', [1, { a: 2 }]);
    cache.set('long', bytesFor(5000)).set('number', 17);
    for (const moved of ['bytes', 'long']) {
        for (const next of ['bytes', 'text', 'json', 'long', 'number']) {
            const { buffer } = cache.get(moved);
            transfer(buffer);
            assert.equal(buffer.byteLength === 0, moved === 'long', 'slabs cannot be transferred');
            const want = { bytes: bytesFor(100), text: 'text', json: [1, { a: 2 }], number: 17 };
            want.long = bytesFor(5000);
            assert.deepEqual(cache.get(next), want[next]);
            const again = cache.get(moved).buffer;
            transfer(again);
            assert.deepEqual(cache.peek(next), want[next]);
            assert.deepEqual(cache.getMany([next, 'absent']), new Map([[next, want[next]]]));
        }
    }
});

test('numbers keep their value and their type', () => {
    const cache = cacheOf();
    const numbers = [0, -0, 1, -1, 0.1, 1e21, 1e-7, 5e-324, Number.MAX_VALUE, NaN, Infinity, -Infinity];
    numbers.push(2 ** 53 - 1, 2 ** 53, 2 ** 53 + 2, -(2 ** 53), 2 ** 63, -(2 ** 63), 2 ** 64, 123.456);
    for (const number of numbers) {
        assert.ok(Object.is(cache.set('k', number).get('k'), number), `${number}`);
        cache.set('listed', [number]);
    }
});

test('a bigint of 64 bits comes back, as a number if that is exact', () => {
    const cache = cacheOf();
    for (const number of [0n, -5n, 2n ** 53n - 1n, 1n - 2n ** 53n]) {
        assert.equal(cache.set('k', number).get('k'), Number(number));
    }
    for (const number of [2n ** 53n, -(2n ** 53n), 2n ** 63n - 1n, -(2n ** 63n)]) {
        assert.equal(cache.set('k', number).get('k'), number);
    }
    for (const number of [2n ** 63n, -(2n ** 63n) - 1n, 2n ** 64n]) {
        refuses('ERR_LARDER_ARGUMENT', () => cache.set('k', number), /64 bits/);
    }
});

test('booleans, null and text come back, and undefined is refused', () => {
    const cache = cacheOf();
    for (const value of [true, false, null, '', 'a\0b', 'grüße ✓ \u{1f600}', '\ufffd', '\ufeffx']) {
        assert.equal(cache.set('k', value).get('k'), value);
    }
    assert.equal(cache.has('k'), true);
    for (const value of [undefined, () => 1, Symbol('s'), class A {}]) {
        refuses('ERR_LARDER_ARGUMENT', () => cache.set('k', value), /delete\(\) removes/);
    }
});

test('text with a lone surrogate comes back by the codec', () => {
    const cache = cacheOf();
    for (const text of ['\ud800', 'a\udfffb', '\udc00\ud800', `${'x'.repeat(5000)}\ud83d`, '\ufffd\ud800']) {
        assert.equal(cache.set('k', text).get('k'), text);
    }
    refuses('ERR_LARDER_ARGUMENT', () => cacheOf({ codec: null }).set('k', '\ud800'));
});

test('text with a lone surrogate is never added to a value', () => {
    const cache = cacheOf().set('k', 'text');
    refuses('ERR_LARDER_ARGUMENT', () => cache.append('k', '\ud800'), /surrogate/);
    refuses('ERR_LARDER_ARGUMENT', () => cache.prepend('k', 'a\udc00'), /surrogate/);
    assert.equal(cache.get('k'), 'text');
});

test('JSON keeps what JSON can express, and refuses what it would lose', () => {
    const cache = cacheOf();
    const values = [[], {}, [[[]]], { a: null, b: [1, 'x', true] }, { __proto__: null, a: 1 }, ['\ud800']];
    for (const value of values) assert.deepEqual(cache.set('k', value).get('k'), JSON.parse(JSON.stringify(value)));
    assert.equal(cache.set('k', new Date(0)).get('k'), '1970-01-01T00:00:00.000Z');
    assert.equal(cache.set('k', new Number(5)).get('k'), 5);
    assert.deepEqual(cache.set('k', JSON.parse('{"__proto__": {"a": 1}}')).get('k'), JSON.parse('{"__proto__": {"a": 1}}'));
    assert.equal({}.a, undefined);
    for (const value of [new Map(), new Set(), /x/, Promise.resolve(1), { toJSON: () => undefined }]) {
        refuses('ERR_LARDER_ARGUMENT', () => cache.set('k', value));
    }
    const circle = {};
    circle.circle = circle;
    refuses('ERR_LARDER_CODEC', () => cache.set('circle', circle), /cannot be encoded/);
    refuses('ERR_LARDER_CODEC', () => cache.set('circle', [1n]), /cannot be encoded/);
    assert.equal(cache.get('circle'), undefined);
});

test('without a codec only plain values are stored', () => {
    const cache = cacheOf({ codec: null });
    assert.equal(cache.codec, null);
    assert.equal(cache.set('k', 'text').get('k'), 'text');
    refuses('ERR_LARDER_ARGUMENT', () => cache.set('k', {}), /found Object/);
    assert.equal(cache.get('k'), 'text');
});

test('the codec of a cache is used for stores and reads', () => {
    const codec = {
        tag: 15,
        encode: (value) => Buffer.from(`<${JSON.stringify(value)}>`),
        decode: (bytes) => JSON.parse(bytes.toString().slice(1, -1)),
    };
    const shared = newPath();
    const cache = cacheOf({ shared, codec });
    assert.deepEqual(cache.set('k', { a: 1 }).get('k'), { a: 1 });
    assert.equal(cache.set('text', 'plain').get('text'), 'plain');
    const other = cacheOf({ shared });
    refuses('ERR_LARDER_CODEC', () => other.get('k'), /of another codec, and the cache has no codec/);
    assert.equal(other.get('text'), 'plain');
    // JSON is a format of all languages, so a cache with another codec reads it as well.
    assert.deepEqual((other.set('json', [1]), cache.get('json')), [1]);
});

test('a codec that is wrong is refused, and one that fails stores nothing', () => {
    for (const codec of ['xml', {}, 5, { tag: 14, encode: () => '' }, () => '']) {
        refuses('ERR_LARDER_ARGUMENT', () => new Cache({ codec }), /codec is 'json', null or an object/);
    }
    for (const tag of [undefined, 0, 1, 11, 16, -1, 6.5, '6']) {
        refuses('ERR_LARDER_ARGUMENT', () => new Cache({ codec: { ...holder, tag } }), /tag of a codec/);
    }
    for (const wrong of [undefined, null, 5, {}, [1], Promise.resolve(''), new Uint16Array(2)]) {
        const cache = cacheOf({ codec: { ...holder, encode: () => wrong } });
        refuses('ERR_LARDER_ARGUMENT', () => cache.set('k', {}), /encode of a codec returns/);
        assert.equal(cache.size, 0);
    }
    const surrogate = cacheOf({ codec: { ...holder, encode: () => 'a\ud800' } });
    refuses('ERR_LARDER_CODEC', () => surrogate.set('k', {}), /surrogate/);
    assert.equal(surrogate.size, 0);
    const detached = Buffer.alloc(16_000, 'd');
    structuredClone(detached.buffer, { transfer: [detached.buffer] });
    const gone = cacheOf({ codec: { ...holder, encode: () => detached } });
    refuses('ERR_LARDER_ARGUMENT', () => gone.set('k', {}), /are gone/);
});

test('an error of a codec reaches the caller, whatever it throws', () => {
    const boom = new Error('boom');
    const broken = { encode: () => { throw boom; }, tag: 14, decode: () => 0 };
    assert.throws(() => cacheOf({ codec: broken }).set('k', {}), (error) => error.cause === boom);
    for (const thrown of [boom, 'text', null, undefined, 5, Symbol('s'), Object.create(null)]) {
        const cache = cacheOf({ codec: { ...holder, decode: () => { throw thrown; } } });
        cache.set('k', { bytes: 'x' }).set('long', { bytes: 'x'.repeat(10_000) });
        for (const key of ['k', 'long']) {
            refuses('ERR_LARDER_CODEC', () => cache.get(key), /cannot be decoded/);
        }
        assert.equal(cache.set('next', 5).get('next'), 5);
    }
});

for (const tag of [6, 7, 14]) {
    test(`decode of a codec with the tag ${tag} may keep its bytes and use the cache`, () => {
        const cache = cacheOf({
            codec: {
                tag,
                encode: ({ bytes }) => bytes,
                decode: (bytes) => {
                    cache.set('inner', Buffer.alloc(300, 1)).get('inner');
                    cache.set('other', 'x'.repeat(7000)).get('other');
                    return { bytes };
                },
            },
        });
        for (const size of [10, 3000, 4097, 20_000]) {
            const bytes = bytesFor(size);
            cache.set('k', { bytes });
            const kept = [cache.get('k'), cache.get('k'), cache.peek('k')];
            for (const value of kept) assert.deepEqual(value.bytes, bytes);
            const { value, token } = cache.getWithToken('k');
            assert.deepEqual(value.bytes, bytes);
            assert.equal(cache.compareAndSet('k', { bytes }, token), true, 'the token is that of k');
            assert.deepEqual(cache.pop('k').bytes, bytes);
            assert.equal(cache.has('k'), false);
        }
    });
}

test('encode may use the cache', () => {
    const cache = cacheOf({
        codec: {
            tag: 14,
            encode: (value) => {
                cache.set('count', (cache.get('count') ?? 0) + 1);
                return JSON.stringify(value);
            },
            decode: (bytes) => JSON.parse(bytes.toString()),
        },
    });
    assert.deepEqual(cache.set('k', [1, 2]).get('k'), [1, 2]);
    assert.equal(cache.add('k', [3]), false);
    assert.equal(cache.get('count'), 2);
});

test('bytes of every view are stored, without those around it', () => {
    const cache = cacheOf();
    const { buffer } = new Uint8Array([9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9]);
    const views = [
        new Uint8Array(buffer, 1, 4), new Int8Array(buffer, 1, 4), new DataView(buffer, 1, 4),
        Buffer.from(buffer, 1, 4), new Uint8ClampedArray(buffer, 1, 4), new Uint8Array([1, 2, 3, 4]).buffer,
    ];
    for (const view of views) assert.deepEqual(cache.set('k', view).get('k'), Buffer.from([1, 2, 3, 4]));
    assert.deepEqual(cache.set('k', new Float64Array([1])).get('k'), Buffer.from(new Float64Array([1]).buffer));
    assert.deepEqual(cache.set('k', new ArrayBuffer(0)).get('k'), Buffer.alloc(0));
    const shared = new Uint8Array(new SharedArrayBuffer(8)).fill(7);
    assert.deepEqual(cache.set('k', shared).get('k'), Buffer.alloc(8, 7));
    assert.deepEqual(cache.set('k', shared.buffer).get('k'), Buffer.alloc(8, 7));
});

test('a transfer of a Buffer leaves the other Buffers of its slab', () => {
    const cache = new Cache({ memory: '16M' });
    cache.set('a', Buffer.from('abc')).set('b', Buffer.from('def'));
    const [a, b] = [cache.get('a'), cache.get('b')];
    transfer(a.buffer);
    assert.equal(b.toString(), 'def');
});
