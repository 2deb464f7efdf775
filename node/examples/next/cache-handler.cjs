// @ts-check
// Pages and results of fetch in a cache that all processes of the site share.
const { cacheHandler } = require('larder-cache/next');

module.exports = cacheHandler({
    shared: process.env.CACHE ?? '/dev/shm/next-example.larder',
    memory: '256M',
});
