#!/usr/bin/env node
// Prints the package.json of a package for npm: `manifest.mjs main PLATFORM...` of the package that
// users install, `manifest.mjs platform PLATFORM` of a native module. `manifest.mjs name [PLATFORM]`
// prints the name of a package. dist.sh calls it.

import { readFileSync } from 'node:fs';

const source = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));
const [what, ...platforms] = process.argv.slice(2);
const nameOf = (platform) => (platform === undefined ? source.name : `${source.name}-${platform}`);

function main() {
    const { devDependencies, scripts, ...manifest } = source;
    const natives = platforms.map((platform) => [nameOf(platform), source.version]);
    return { ...manifest, optionalDependencies: Object.fromEntries(natives) };
}

function platformPackage() {
    const [os, cpu, libc] = platforms[0].split('-');
    return {
        name: nameOf(platforms[0]),
        version: source.version,
        description: `The native module of ${source.name} for ${platforms[0]}`,
        license: source.license,
        repository: source.repository,
        engines: source.engines,
        main: 'larder.node',
        files: ['larder.node'],
        os: [os],
        cpu: [cpu],
        libc: [libc === 'gnu' ? 'glibc' : libc],
    };
}

const print = { main, platform: platformPackage }[what];
console.log(print ? JSON.stringify(print(), null, 4) : nameOf(platforms[0]));
