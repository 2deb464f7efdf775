// Every name that require returns can be imported, and is the same object.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

import * as imported from 'larder-cache';

const required = createRequire(import.meta.url)('larder-cache');
assert.ok('Cache' in required);
for (const name of Object.keys(required)) assert.equal(imported[name], required[name], name);
for (const part of ['keyv', 'next', 'session']) {
    const module = await import(`larder-cache/${part}`);
    assert.ok(Object.keys(module).length > 0, part);
}
console.log('names: passed');
