// @ts-check
// Results of functions and components with 'use cache', in the same cache.
const { useCacheHandler } = require('larder-cache/next');

module.exports = useCacheHandler({
    shared: process.env.CACHE ?? '/dev/shm/next-example.larder',
    memory: '256M',
});
