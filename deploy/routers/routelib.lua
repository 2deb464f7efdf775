-- memcached's own proxy (1.6.23 or newer, built with --enable-proxy) in front of three larderd.
-- The tests do not run this file: Debian's memcached is 1.6.18, which does not have a proxy.
--
--   memcached -l 127.0.0.1 -p 22121 -o proxy_config=routelib.lua,proxy_arg=config.lua
--
-- where routelib.lua is from memcached/memcached-proxylibs and config.lua is this file.

settings{
    -- Seconds. Longer than a restart of larderd takes.
    backend_connect_timeout = 2,
    backend_read_timeout = 2,
    backend_retry_timeout = 1,
}

pools{
    larder = {
        backends = {
            "127.0.0.1:11211",
            "127.0.0.1:11212",
            "127.0.0.1:11213",
        },
    },
}

-- Every key goes to one server of the pool. A server that fails keeps its keys.
routes{
    default = route_direct{
        child = "larder",
    },
}
