// Uses the installed package: smoke.cjs FILE. FILE is the file of a shared cache. Runs on Node, Bun
// and Deno.

const assert = require('node:assert/strict');
const fs = require('node:fs');

const larder = require('larder-cache');

async function main(file) {
    const cache = new larder.Cache({ memory: '16M', shared: file });
    const values = ['text', 'grüße', 7, -0.5, true, null, { list: [1, 'a'] }, 2n ** 62n];
    for (const value of values) assert.deepEqual(cache.set('key', value).get('key'), value);
    cache.set('bytes', Buffer.alloc(100_000, 7));
    assert.equal(cache.get('bytes').length, 100_000);
    assert.equal(cache.increment('count', 5), 5);
    assert.deepEqual([...cache.keys()].sort(), ['bytes', 'count', 'key']);
    assert.equal(cache.getMany(['key', 'count', 'absent']).size, 2);
    const load = () => new Promise((resolve) => setTimeout(resolve, 10, { loaded: true }));
    const loads = [1, 2, 3].map(() => cache.wrap('load', 60_000, load));
    assert.deepEqual(await Promise.all(loads), Array(3).fill({ loaded: true }));
    const again = new larder.Cache({ shared: file });
    assert.deepEqual(again.get('load'), { loaded: true });
    cache.close();
    again.close();
    assert.throws(() => cache.get('key'), { code: 'ERR_LARDER_CLOSED' });
    fs.rmSync(file);
    const { node, ...others } = process.versions;
    const runtime = ['bun', 'deno'].find((name) => others[name]);
    const version = runtime ? `${runtime} ${others[runtime]}` : `node ${node}`;
    console.log(`smoke: passed: ${version}, ${process.arch}`);
}

main(process.argv[2]);
