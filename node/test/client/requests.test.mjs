// The requests of a client, on larderd over TCP and a unix socket, and on memcached.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client } from 'larder-cache';

import { raw, startLarderd, startMemcached } from './servers.mjs';

const VALUES = [
    'text',
    'é 😀',
    '',
    'a lone \ud800 surrogate',
    0,
    17,
    -1,
    2 ** 53 - 1,
    2n ** 63n - 1n,
    1.5,
    -0,
    5e-324,
    1e300,
    NaN,
    -Infinity,
    true,
    false,
    null,
    Buffer.from([0, 13, 10, 255]),
    Buffer.alloc(0),
    { name: 'Ada', list: [1, 'é'] },
];

/** Starts each server, and calls `scene` with a client of it. */
async function onEach(t, scene) {
    const kinds = {
        'larderd over TCP': async (t) => (await startLarderd(t)).tcp,
        'larderd at a unix socket': async (t) => (await startLarderd(t)).unix,
        'memcached over TCP': async (t) => (await startMemcached(t))?.tcp,
    };
    for (const [name, start] of Object.entries(kinds)) {
        await t.test(name, async (t) => {
            const address = await start(t);
            if (address === undefined) return;
            const client = new Client(address);
            t.after(() => client.close());
            await scene(client);
        });
    }
}

test('values keep their types', async (t) => {
    await onEach(t, async (client) => {
        for (const [at, value] of VALUES.entries()) {
            await client.set(`key${at}`, value);
            assert.deepEqual(await client.get(`key${at}`), value);
        }
        const keys = VALUES.map((_, at) => `key${at}`);
        assert.deepEqual([...(await client.getMany(keys)).values()], VALUES);
        for (const view of [new Uint16Array([1, 2]), new DataView(new ArrayBuffer(3))]) {
            await client.set('view', view);
            assert.deepEqual(await client.get('view'), Buffer.from(view.buffer));
        }
    });
});

test('the bytes of a store are those at the time of the call', async (t) => {
    const client = new Client((await startLarderd(t)).tcp);
    t.after(() => client.close());
    const bytes = Buffer.from('before');
    const stored = client.set('key', bytes);
    bytes.write('later!');
    await stored;
    assert.equal(String(await client.get('key')), 'before');
});

test('values have the tags and the bytes of the clients in other languages', async (t) => {
    const server = await startLarderd(t);
    const client = new Client(server.tcp);
    t.after(() => client.close());
    const cases = [
        ['é', 11, '\xc3\xa9'],
        [-5, 1, '-5'],
        [1.5, 2, '1.5'],
        [true, 3, '1'],
        [false, 3, ''],
        [null, 8, ''],
        [{ a: 1 }, 6, '{"a":1}'],
        [Buffer.from('b'), 0, 'b'],
    ];
    for (const [value, tag, bytes] of cases) {
        await client.set('key', value);
        const item = `VALUE key ${tag} ${bytes.length}\r\n${bytes}\r\nEND\r\n`;
        assert.equal(await raw(server, 'get key\r\n', 'END\r\n'), item);
    }
    for (const [tag, bytes, value] of [
        [1, '170141183460469231731687303715884105727', 2n ** 127n - 1n],
        [1, '9  ', 9],
        [2, '1e+21', 1e21],
        [2, 'NaN', NaN],
        [2, '-inf', -Infinity],
        [11, 'text', 'text'],
    ]) {
        await raw(server, `set key ${tag} 0 ${bytes.length}\r\n${bytes}\r\n`);
        assert.deepEqual(await client.get('key'), value);
    }
    for (const [tag, bytes] of [
        [1, '1x'],
        [2, ''],
        [11, '\xff'],
        [4, 'i:1;'],
        [6, '{'],
        [99, ''],
    ]) {
        await raw(server, `set key ${tag} 0 ${bytes.length}\r\n${bytes}\r\n`);
        await assert.rejects(client.get('key'), { code: 'ERR_LARDER_CODEC' });
    }
});

test('each method returns what the same method of Cache returns', async (t) => {
    await onEach(t, async (client) => {
        assert.equal(await client.get('none'), undefined);
        assert.equal(await client.set('a', 1), undefined);
        assert.deepEqual([await client.add('a', 2), await client.add('b', 2)], [false, true]);
        assert.deepEqual(
            [await client.replace('c', 3), await client.replace('b', 3)],
            [false, true],
        );
        assert.deepEqual([await client.has('a'), await client.has('none')], [true, false]);
        assert.equal(await client.getWithToken('none'), undefined);
        const { value, token } = await client.getWithToken('a');
        assert.equal(value, 1);
        assert.equal(await client.compareAndSet('a', 10, token), true);
        assert.equal(await client.compareAndSet('a', 11, token), false);
        assert.equal(await client.compareAndSet('none', 11, token), undefined);
        assert.deepEqual(
            await client.getMany(['b', 'none', 'a']),
            new Map([
                ['b', 3],
                ['a', 10],
            ]),
        );
        assert.deepEqual(
            await client.setMany(
                new Map([
                    ['d', 1],
                    ['e', 2],
                ]),
            ),
            [],
        );
        assert.deepEqual([await client.delete('d'), await client.delete('d')], [true, false]);
        assert.equal(await client.deleteMany(['a', 'b', 'none']), 2);
        await client.flush();
        assert.equal(await client.get('e'), undefined);
    });
});

test('text and bytes are added to values of the same type', async (t) => {
    await onEach(t, async (client) => {
        await client.setMany([
            ['text', 'b'],
            ['bytes', Buffer.from('b')],
            ['number', 1],
        ]);
        assert.equal(await client.append('text', 'ü'), true);
        assert.equal(await client.prepend('text', 'a'), true);
        assert.equal(await client.get('text'), 'abü');
        assert.equal(await client.append('bytes', Buffer.from([255])), true);
        assert.deepEqual(await client.get('bytes'), Buffer.from([98, 255]));
        assert.equal(await client.append('none', 'x'), false);
        for (const [key, part] of [
            ['text', Buffer.from('x')],
            ['number', 'x'],
            ['text', 1],
        ]) {
            await assert.rejects(client.append(key, part), { code: 'ERR_LARDER_ARGUMENT' });
        }
    });
});

test('counters begin at initial, stay numbers, and do not fall below 0', async (t) => {
    await onEach(t, async (client) => {
        assert.equal(await client.increment('n'), 1);
        assert.equal(await client.increment('n', 10), 11);
        assert.equal(await client.decrement('n', 2), 9);
        assert.equal(await client.get('n'), 9);
        assert.equal(await client.decrement('n', 100), 0);
        assert.equal(await client.increment('none', 1, { initial: null }), undefined);
        assert.equal(await client.increment('m', 5, { initial: 10, ttl: 5000 }), 15);
        assert.ok((await client.ttlOf('m')) <= 5000);
        const many = Array.from({ length: 100 }, () => client.increment('parallel'));
        assert.equal(Math.max(...(await Promise.all(many))), 100);
        await client.set('big', 2n ** 62n);
        assert.equal(await client.increment('big'), 2n ** 62n + 1n);
        await client.set('text', 'x');
        await assert.rejects(client.increment('text'), { code: 'ERR_LARDER_NOT_A_NUMBER' });
        await assert.rejects(client.increment('n', 1.5), { code: 'ERR_LARDER_ARGUMENT' });
    });
});

test('items live as long as their ttl says', async (t) => {
    await onEach(t, async (client) => {
        await client.set('default', 1);
        assert.equal(await client.ttlOf('default'), Infinity);
        assert.equal(await client.ttlOf('none'), undefined);
        await client.set('short', 1, 1);
        const left = await client.ttlOf('short');
        assert.ok(left === undefined || left <= 1000);
        // memcached reads more than 30 days as a point in time.
        for (const days of [29, 31, 300]) {
            await client.set('long', 1, days * 86_400_000);
            const off = Math.abs((await client.ttlOf('long')) - days * 86_400_000);
            assert.ok(off <= 2000, `${days} days are wrong by ${off} ms`);
        }
        assert.deepEqual(
            [await client.touch('long', 60_000), await client.touch('none')],
            [true, false],
        );
        assert.ok((await client.ttlOf('long')) <= 60_000);
        assert.equal(await client.getAndTouch('long', 30_000), 1);
        assert.ok((await client.ttlOf('long')) <= 30_000);
        assert.equal(await client.getAndTouch('none', 30_000), undefined);
        await assert.rejects(client.set('key', 1, 0), { code: 'ERR_LARDER_ARGUMENT' });
    });
});

test('keys are text and bytes of all kinds', async (t) => {
    await onEach(t, async (client) => {
        const keys = [
            'plain',
            'with blank',
            'line\r\nbreak',
            '\0',
            'ключ',
            '😀',
            'x'.repeat(250),
            'ü'.repeat(125),
            Buffer.from([255, 254]),
            Buffer.from([255, 32]),
            Buffer.from('as bytes'),
        ];
        for (const [at, key] of keys.entries()) {
            await client.set(key, at);
            assert.equal(await client.get(key), at);
        }
        assert.equal(await client.get('as bytes'), keys.length - 1);
        assert.deepEqual([...(await client.getMany(keys)).keys()], keys);
        const wrong = ['', 'x'.repeat(251), 'a lone \ud800', ' '.repeat(187), 17, undefined, []];
        for (const key of wrong) {
            for (const method of ['get', 'delete', 'has', 'ttlOf']) {
                await assert.rejects(client[method](key), { code: 'ERR_LARDER_ARGUMENT' });
            }
            await assert.rejects(client.set(key, 1), { code: 'ERR_LARDER_ARGUMENT' });
        }
    });
});

test('a prefix is a part of all keys', async (t) => {
    const server = await startLarderd(t);
    const [plain, ours] = [new Client(server.tcp), new Client(server.unix, { prefix: 'ours:' })];
    t.after(() => Promise.all([plain.close(), ours.close()]));
    await ours.set('key', 1);
    await ours.set(Buffer.from('bytes'), 2);
    assert.equal(await plain.get('ours:key'), 1);
    assert.equal(await plain.get('ours:bytes'), 2);
    assert.equal(await ours.get('key'), 1);
    await assert.rejects(ours.get('x'.repeat(246)), { code: 'ERR_LARDER_ARGUMENT' });
    await assert.rejects(ours.get(''), { code: 'ERR_LARDER_ARGUMENT' });
});

test('values of a megabyte arrive complete, and longer ones are refused', async (t) => {
    const client = new Client((await startLarderd(t)).tcp, { timeout: 20_000 });
    t.after(() => client.close());
    const bytes = Buffer.alloc(1_000_000, 'abc');
    await client.set('bytes', bytes);
    await client.set('text', 'ü'.repeat(400_000));
    assert.ok((await client.get('bytes')).equals(bytes));
    assert.equal((await client.get('text')).length, 400_000);
    const error = { code: 'ERR_LARDER_TOO_LARGE' };
    await assert.rejects(client.set('long', Buffer.alloc(2 ** 21)), error);
    const long = [
        ['long', Buffer.alloc(2 ** 21)],
        ['short', 1],
    ];
    assert.deepEqual(await client.setMany(long), ['long']);
    assert.equal(await client.get('short'), 1);
});

test('ten thousand requests are in flight on one connection', async (t) => {
    const server = await startLarderd(t);
    const client = new Client(server.tcp, { timeout: 20_000 });
    t.after(() => client.close());
    const numbers = Array.from({ length: 10_000 }, (_, number) => number);
    await Promise.all(numbers.map((number) => client.set(`k${number}`, number)));
    const values = await Promise.all(numbers.map((number) => client.get(`k${number}`)));
    assert.deepEqual(values, numbers);
    const [stats] = (await client.stats()).values();
    // The one that waits for the start of the server, and that of the client.
    assert.ok(stats.total_connections <= 4, `${stats.total_connections} connections`);
});

test('requests of one key are executed in their order, also on several connections', async (t) => {
    const client = new Client((await startLarderd(t)).tcp, { connections: 4, timeout: 20_000 });
    t.after(() => client.close());
    const reads = [];
    for (let number = 0; number < 500; number++) {
        const key = `k${number % 7}`;
        client.set(key, number);
        reads.push(client.get(key));
    }
    assert.deepEqual(
        await Promise.all(reads),
        Array.from({ length: 500 }, (_, number) => number),
    );
});

test('statistics and versions are those of each server', async (t) => {
    await onEach(t, async (client) => {
        const [name] = client.servers;
        await client.set('key', 1);
        const stats = (await client.stats()).get(name);
        assert.equal(typeof stats.pid, 'number');
        assert.match(stats.version, /^1\.6\./);
        assert.ok(Object.keys((await client.stats('items')).get(name)).length > 0);
        assert.match((await client.version()).get(name), /^1\.6\./);
        await assert.rejects(client.stats('bad\r\nflush_all'), { code: 'ERR_LARDER_ARGUMENT' });
        await client.flush(60_000);
        assert.equal(await client.get('key'), 1);
    });
});

test('a codec makes and reads values of its tag', async (t) => {
    const server = await startLarderd(t);
    const codec = {
        tag: 15,
        encode: (value) => Buffer.from(JSON.stringify([...value])),
        decode: (bytes) => new Set(JSON.parse(bytes.toString())),
    };
    const [sets, plain] = [
        new Client(server.tcp, { codec }),
        new Client(server.tcp, { codec: null }),
    ];
    t.after(() => Promise.all([sets.close(), plain.close()]));
    await sets.set('set', new Set([1, 2]));
    assert.deepEqual(await sets.get('set'), new Set([1, 2]));
    await assert.rejects(plain.get('set'), { code: 'ERR_LARDER_CODEC' });
    await assert.rejects(plain.set('object', {}), { code: 'ERR_LARDER_ARGUMENT' });
});

test('a batch may be longer than the queue of a connection', async (t) => {
    const server = await startLarderd(t);
    const client = new Client(server.tcp, { maxPending: 10_000 });
    t.after(() => client.close());
    const keys = Array.from({ length: 30_000 }, (_, number) => `k${number}`);
    assert.deepEqual(await client.setMany(keys.map((key) => [key, 1])), []);
    assert.equal((await client.getMany(keys)).size, keys.length);
});
