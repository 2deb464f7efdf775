#!/usr/bin/env bash
# Keyv's own tests of storage adapters, all of them, with the adapter of this package: keyv.sh
# [ARGUMENT of vitest...]. They run with Keyv 5, for which they were written, and with Keyv 6. Needs
# Node 20 and `make all`.
source "$(dirname "$0")/source.sh"

enter_suite keyv keyv5@npm:keyv@5.6.0 keyv6@npm:keyv@6.1.0 keyv@5.6.0 @keyv/test-suite@2.1.2 \
    vitest@4.1.2
cat >keyv.test.mjs <<'END'
import { randomUUID } from 'node:crypto';
import * as test from 'vitest';
import suite, { keyvIteratorTests } from '@keyv/test-suite';
import { Keyv as Keyv5 } from 'keyv5';
import { Keyv as Keyv6 } from 'keyv6';
import { Cache } from 'larder-cache';
import { KeyvLarder } from 'larder-cache/keyv';

// Keyv 6 returns an array where the tests, of Keyv 5, expect one boolean: with each store.
const isChanged = (name) => name === '.deleteMany([keys]) with nonexistent keys resolves to false';
const testsOf6 = {
    ...test,
    it: (name, body) => (isChanged(name) ? test.it.skip : test.it)(name, body),
};

for (const [name, Keyv] of Object.entries({ Keyv5, Keyv6 })) {
    const tests = Keyv === Keyv6 ? testsOf6 : test;
    test.describe(`${name} with a private cache`, () => {
        const cache = new Cache();
        suite(tests, Keyv, () => new KeyvLarder(cache));
        keyvIteratorTests(tests, Keyv, () => new KeyvLarder(cache));
    });
    test.describe(`${name} with a shared cache`, () => {
        const shared = `${process.env.FOLDER}/${randomUUID()}.larder`;
        const open = () => new KeyvLarder({ shared, memory: '8M' });
        suite(tests, Keyv, open);
        keyvIteratorTests(tests, Keyv, open);
    });
}
END
conclude_vitest keyv "$@"
