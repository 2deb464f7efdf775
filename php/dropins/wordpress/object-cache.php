<?php

/**
 * Plugin Name: Larder object cache
 * Description: Keeps the object cache in memory that all workers of PHP share, by larder.so.
 * Version: 0.1.0
 *
 * Copy this file to wp-content/object-cache.php. Larder's docs/dropins.md describes it.
 */

defined('ABSPATH') || exit;

/**
 * WordPress's object cache: the values that this request has used, and after them those of all
 * requests in Larder\Cache. In a request a value stays what the request first read, as in
 * WordPress's own class. Methods that store return false if other requests will not see the value:
 * this request does.
 *
 * **No stale fills.** A request may read the database, lose its processor, and store what it read
 * after another request has changed and deleted it. So a delete leaves a mark, and a request that
 * found no value may only add one as long as the key has the mark, or lack of it, that it found.
 */
#[AllowDynamicProperties]
class Larder_Object_Cache
{
    private const MARK = "\0larder mark:";
    /** Longer than a request takes that fills the cache. */
    private const MARK_SECONDS = 300;
    /** Bounds how long a list of absent options can be wrong, if it was so by a rare race. */
    private const ABSENT_OPTIONS_SECONDS = 600;
    /** For a counter whose time to live cannot be kept: it must end one day. */
    private const CONVERTED_COUNTER_SECONDS = 3600;

    public int $cache_hits = 0;
    public int $cache_misses = 0;
    /** The values of this request, by group and key. */
    public array $cache = [];
    public array $global_groups = [];
    public array $non_persistent_groups = [];
    public bool $multisite;
    public string $blog_prefix;

    private Larder\Cache $shared;
    private string $site;
    private object $nothing;
    /** What keys without a value had when this request read them: a mark, or null. */
    private array $missed = [];
    private string $mark;
    private int $marks = 0;

    public function __construct()
    {
        $this->shared = Larder\Cache::shared();
        $this->site = self::site();
        $this->nothing = new stdClass();
        $this->mark = self::MARK . bin2hex(random_bytes(8)) . ':';
        $this->multisite = is_multisite();
        $this->switch_to_blog(get_current_blog_id());
    }

    /** Returns why the shared cache cannot be used, or null. */
    public static function obstacle(): ?string
    {
        if (!class_exists('Larder\Cache', false)) {
            return 'larder.so is not loaded';
        }
        if (Larder\Cache::shared()->stats() !== []) {
            return null;
        }
        if (PHP_SAPI === 'cli' && (string) ini_get('larder.path') === '') {
            return 'the command line shares no memory with the web server without larder.path: what'
                . ' it changes may stay as it was in the cache of the web server';
        }
        return 'larder.so has no memory: see larder.memory and larder.path in php.ini';
    }

    /**
     * Returns the prefix of this site's keys. It has one length for all sites, so that no prefix
     * begins another. The database is a part of it, also with a salt: a copy of a site with its
     * wp-config.php does not read what the site stored.
     */
    private static function site(): string
    {
        $parts = [defined('WP_CACHE_KEY_SALT') ? WP_CACHE_KEY_SALT : ''];
        foreach (['DB_HOST', 'DB_NAME'] as $name) {
            $parts[] = defined($name) ? constant($name) : '';
        }
        $parts[] = $GLOBALS['table_prefix'] ?? '';
        return 'wp:' . substr(hash('sha256', implode("\0", $parts)), 0, 24) . ':';
    }

    public function add($key, $data, $group = 'default', $expire = 0)
    {
        if (wp_suspend_cache_addition() || !$this->is_valid($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        if ($this->is_here($group, $id)) {
            return false;
        }
        if (isset($this->non_persistent_groups[$group])) {
            $this->keep($group, $id, $data);
            return true;
        }
        $is_added = $this->fill($this->name($group, $id), $data, (int) $expire);
        if ($is_added !== false) {
            $this->keep($group, $id, $data);
        }
        return (bool) $is_added;
    }

    public function add_multiple(array $data, $group = '', $expire = 0)
    {
        $results = [];
        foreach ($data as $key => $value) {
            $results[$key] = $this->add($key, $value, $group, $expire);
        }
        return $results;
    }

    public function replace($key, $data, $group = 'default', $expire = 0)
    {
        if (!$this->is_valid($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        return $this->finds($group, $id) && $this->set($key, $data, $group, $expire);
    }

    public function set($key, $data, $group = 'default', $expire = 0)
    {
        if (!$this->is_valid($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        $before = $this->cache[$group][$id] ?? null;
        $this->keep($group, $id, $data);
        if (isset($this->non_persistent_groups[$group])) {
            return true;
        }
        $name = $this->name($group, $id);
        if ($group === 'options') {
            return $key === 'notoptions'
                ? $this->set_absent_options($name, $before, $data)
                : $this->change_option($name);
        }
        return $this->store($name, $data, (int) $expire);
    }

    public function set_multiple(array $data, $group = '', $expire = 0)
    {
        $results = [];
        foreach ($data as $key => $value) {
            $results[$key] = $group === 'options'
                ? $this->set_read_option($key, $value)
                : $this->set($key, $value, $group, $expire);
        }
        return $results;
    }

    public function get($key, $group = 'default', $force = false, &$found = null)
    {
        if (!$this->is_valid($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        $found = $this->finds($group, $id, $force);
        return $this->answer($group, $id);
    }

    public function get_multiple($keys, $group = 'default', $force = false)
    {
        $group = $group ?: 'default';
        $is_local = isset($this->non_persistent_groups[$group]);
        $results = $ids = $names = [];
        foreach ($keys as $key) {
            $results[$key] = false;
            if (!$this->is_valid($key)) {
                continue;
            }
            $ids[$key] = $id = $this->place($key, $group)[1];
            if (!$is_local && ($force || !$this->is_here($group, $id))) {
                $names[$id] = $this->name($group, $id);
            }
        }
        $found = $names ? $this->shared->getMany($names) : [];
        foreach ($names as $id => $name) {
            $is_found = array_key_exists($name, $found);
            $this->receive($group, $id, $name, $is_found ? $found[$name] : $this->nothing);
        }
        foreach ($ids as $key => $id) {
            $results[$key] = $this->answer($group, $id);
        }
        return $results;
    }

    public function delete($key, $group = 'default', $deprecated = false)
    {
        if (!$this->is_valid($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        $is_there = $this->is_here($group, $id);
        unset($this->cache[$group][$id]);
        if (!isset($this->non_persistent_groups[$group])) {
            $name = $this->name($group, $id);
            $value = $this->shared->get($name, $this->nothing);
            $is_there = $is_there || !$this->is_absent($value);
            $this->forget($name);
        }
        return $is_there;
    }

    public function delete_multiple(array $keys, $group = '')
    {
        $results = [];
        foreach ($keys as $key) {
            $results[$key] = $this->delete($key, $group);
        }
        return $results;
    }

    public function incr($key, $offset = 1, $group = 'default')
    {
        return $this->count($key, (int) $offset, $group);
    }

    public function decr($key, $offset = 1, $group = 'default')
    {
        return $this->count($key, -(int) $offset, $group);
    }

    /** Removes what this site has stored: all blogs of a network, and no other site. */
    public function flush()
    {
        $this->flush_runtime();
        $this->shared->deletePrefix($this->site);
        return true;
    }

    public function flush_group($group)
    {
        unset($this->cache[$group]);
        $this->missed = [];
        $this->shared->deletePrefix($this->name($group, ''));
        return true;
    }

    public function flush_runtime()
    {
        $this->cache = [];
        $this->missed = [];
        return true;
    }

    public function add_global_groups($groups)
    {
        $this->global_groups += array_fill_keys((array) $groups, true);
    }

    public function add_non_persistent_groups($groups)
    {
        $this->non_persistent_groups += array_fill_keys((array) $groups, true);
    }

    public function switch_to_blog($blog_id)
    {
        $this->blog_prefix = $this->multisite ? (int) $blog_id . ':' : '';
    }

    public function reset()
    {
        $this->cache = array_intersect_key($this->cache, $this->global_groups);
    }

    public function stats()
    {
        printf(
            '<p>Larder: %d items in the cache, this request: %d hits, %d misses</p><ul>',
            count($this->shared),
            $this->cache_hits,
            $this->cache_misses
        );
        foreach ($this->cache as $group => $values) {
            printf('<li>%s: %d values</li>', esc_html($group), count($values));
        }
        echo '</ul>';
    }

    private function is_valid($key): bool
    {
        if (is_int($key) || is_string($key) && trim($key) !== '') {
            return true;
        }
        _doing_it_wrong(
            __CLASS__ . '::' . debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 2)[1]['function'],
            'A cache key is an integer, or a string that is not blank.',
            '6.1.0'
        );
        return false;
    }

    /** Returns the group, and the key with the blog that it belongs to. */
    private function place($key, $group): array
    {
        $group = $group ?: 'default';
        $is_of_blog = $this->multisite && !isset($this->global_groups[$group]);
        return [$group, $is_of_blog ? $this->blog_prefix . $key : $key];
    }

    /** The key in Larder. The NUL ends the group: a group may begin another, and have any sign. */
    private function name($group, $id): string
    {
        return "$this->site$group\0$id";
    }

    private function is_here($group, $id): bool
    {
        return isset($this->cache[$group]) && array_key_exists($id, $this->cache[$group]);
    }

    private function keep($group, $id, $data): void
    {
        $this->cache[$group][$id] = is_object($data) ? clone $data : $data;
    }

    /** Gets a value into this request. Returns false if it is missing. */
    private function finds($group, $id, $force = false): bool
    {
        $is_local = isset($this->non_persistent_groups[$group]);
        if (!$is_local && ($force || !$this->is_here($group, $id))) {
            $name = $this->name($group, $id);
            $value = $this->shared->get($name, $this->nothing);
            $this->receive($group, $id, $name, $value);
        }
        return $this->is_here($group, $id);
    }

    private function receive($group, $id, string $name, $value): void
    {
        if ($this->is_absent($value)) {
            $this->missed[$name] = $value === $this->nothing ? null : $value;
            unset($this->cache[$group][$id]);
        } else {
            $this->cache[$group][$id] = $value;
        }
    }

    /** Returns the value that this request has, or false. */
    private function answer($group, $id)
    {
        if (!$this->is_here($group, $id)) {
            $this->cache_misses++;
            return false;
        }
        $this->cache_hits++;
        $value = $this->cache[$group][$id];
        return is_object($value) ? clone $value : $value;
    }

    private function is_absent($value): bool
    {
        return $value === $this->nothing
            || is_string($value) && str_starts_with($value, self::MARK);
    }

    /**
     * Adds what this request has read elsewhere. Returns false if the key has a value, or was
     * changed since this request looked, and null if the cache cannot store the value.
     */
    private function fill(string $name, $data, int $expire): ?bool
    {
        if ($expire < 0) {
            return null;
        }
        try {
            if ($this->shared->add($name, $data, $expire ?: null)) {
                unset($this->missed[$name]);
                return true;
            }
            $value = $this->shared->get($name, $this->nothing);
            if ($value === $this->nothing) {
                return null;
            }
            $is_as_seen = !array_key_exists($name, $this->missed)
                || $this->missed[$name] === $value;
            unset($this->missed[$name]);
            if (!$this->is_absent($value) || !$is_as_seen) {
                return false;
            }
            if ($this->shared->cas($name, $value, $data, $expire ?: null)) {
                return true;
            }
            return $this->shared->get($name, $this->nothing) === $value ? null : false;
        } catch (Throwable) {
            return null;
        }
    }

    /** Returns false if the value cannot be stored: then the key is removed. */
    private function store(string $name, $data, int $expire): bool
    {
        unset($this->missed[$name]);
        try {
            if ($expire >= 0 && $this->shared->set($name, $data, $expire ?: null)) {
                return true;
            }
        } catch (Throwable) {
            // The class of an object is not allowed, or a value cannot be serialized.
        }
        $this->forget($name);
        return false;
    }

    /**
     * Options change in the database first, and requests that change several at a time may store
     * them here in another order, or store an array of all options that lacks the change of the
     * other. So a change removes the item, and the next request reads the database.
     */
    private function change_option(string $name): bool
    {
        $this->forget($name);
        return true;
    }

    /**
     * The list of options that the database does not have grows with each that a request looks
     * for, and a request that adds an option takes it from the list. A list that has grown replaces
     * the one that the request has read, and no other.
     */
    private function set_absent_options(string $name, $before, $data): bool
    {
        if ($before === null) {
            return $this->fill($name, $data, self::ABSENT_OPTIONS_SECONDS) === true;
        }
        if (!is_array($data) || !is_array($before) || array_diff_key($before, $data)) {
            return $this->change_option($name);
        }
        return $this->shared->cas($name, $before, $data, self::ABSENT_OPTIONS_SECONDS);
    }

    /** WordPress sets several options together after it has read them, and changes single ones. */
    private function set_read_option($key, $data): bool
    {
        if (!$this->is_valid($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, 'options');
        $this->keep($group, $id, $data);
        $name = $this->name($group, $id);
        if ($this->fill($name, $data, 0) !== true) {
            $this->forget($name);
        }
        return true;
    }

    /** Removes a value, and leaves a mark. */
    private function forget(string $name): void
    {
        $mark = $this->mark . ++$this->marks;
        $this->shared->set($name, $mark, self::MARK_SECONDS);
        $this->missed[$name] = $mark;
    }

    /** Adds to a number, which is 0 at least. Other values count as 0. */
    private function count($key, int $by, $group)
    {
        if (!$this->is_valid($key)) {
            return false;
        }
        [$group, $id] = $this->place($key, $group);
        $is_local = isset($this->non_persistent_groups[$group]);
        if (!$this->finds($group, $id, !$is_local)) {
            return false;
        }
        $value = $this->cache[$group][$id];
        $sum = (is_numeric($value) ? $value : 0) + $by;
        $sum = $sum < 0 ? 0 : $sum;
        if (!$is_local) {
            $name = $this->name($group, $id);
            $sum = is_int($value) && is_int($sum)
                ? $this->count_shared($name, $sum - $value)
                : $this->convert($name, $value, $sum, $by);
        }
        if ($sum === false) {
            unset($this->cache[$group][$id]);
            return false;
        }
        return $this->cache[$group][$id] = $sum;
    }

    /** Adds to an integer of all requests, which keeps its time to live. */
    private function count_shared(string $name, int $by)
    {
        try {
            // If the number has just gone, the one that this makes goes immediately.
            $sum = $this->shared->increment($name, $by, 1);
            if ($sum === false || $sum >= 0) {
                return $sum;
            }
            // Each request takes back at most what it took, so the order makes no difference.
            return max(0, $this->shared->increment($name, min(-$sum, max(0, -$by)), 1));
        } catch (Larder\Exception) {
            return false;
        }
    }

    private function convert(string $name, $value, $sum, int $by)
    {
        if ($this->shared->cas($name, $value, $sum, self::CONVERTED_COUNTER_SECONDS)) {
            return $sum;
        }
        // Another request has converted it.
        return is_int($sum) ? $this->count_shared($name, $by) : false;
    }
}

$larder_obstacle = Larder_Object_Cache::obstacle();

// Without the functions below WordPress loads its own cache, and keeps transients in the database.
if ($larder_obstacle !== null) {
    $larder_notice = static function () use ($larder_obstacle) {
        if (current_user_can('manage_options')) {
            printf(
                '<div class="notice notice-error"><p>%s</p></div>',
                esc_html("wp-content/object-cache.php has no effect: $larder_obstacle.")
            );
        }
    };
    add_action('admin_notices', $larder_notice);
    add_action('network_admin_notices', $larder_notice);
    if (PHP_SAPI === 'cli') {
        fwrite(STDERR, "wp-content/object-cache.php has no effect: $larder_obstacle.\n");
    }
} else {
    class_alias('Larder_Object_Cache', 'WP_Object_Cache');

    function wp_cache_init()
    {
        $GLOBALS['wp_object_cache'] = new WP_Object_Cache();
    }

    function wp_cache_add($key, $data, $group = '', $expire = 0)
    {
        return $GLOBALS['wp_object_cache']->add($key, $data, $group, (int) $expire);
    }

    function wp_cache_add_multiple(array $data, $group = '', $expire = 0)
    {
        return $GLOBALS['wp_object_cache']->add_multiple($data, $group, $expire);
    }

    function wp_cache_replace($key, $data, $group = '', $expire = 0)
    {
        return $GLOBALS['wp_object_cache']->replace($key, $data, $group, (int) $expire);
    }

    function wp_cache_set($key, $data, $group = '', $expire = 0)
    {
        return $GLOBALS['wp_object_cache']->set($key, $data, $group, (int) $expire);
    }

    function wp_cache_set_multiple(array $data, $group = '', $expire = 0)
    {
        return $GLOBALS['wp_object_cache']->set_multiple($data, $group, $expire);
    }

    function wp_cache_get($key, $group = '', $force = false, &$found = null)
    {
        return $GLOBALS['wp_object_cache']->get($key, $group, $force, $found);
    }

    function wp_cache_get_multiple($keys, $group = '', $force = false)
    {
        return $GLOBALS['wp_object_cache']->get_multiple($keys, $group, $force);
    }

    function wp_cache_delete($key, $group = '')
    {
        return $GLOBALS['wp_object_cache']->delete($key, $group);
    }

    function wp_cache_delete_multiple(array $keys, $group = '')
    {
        return $GLOBALS['wp_object_cache']->delete_multiple($keys, $group);
    }

    function wp_cache_incr($key, $offset = 1, $group = '')
    {
        return $GLOBALS['wp_object_cache']->incr($key, $offset, $group);
    }

    function wp_cache_decr($key, $offset = 1, $group = '')
    {
        return $GLOBALS['wp_object_cache']->decr($key, $offset, $group);
    }

    function wp_cache_flush()
    {
        return $GLOBALS['wp_object_cache']->flush();
    }

    function wp_cache_flush_runtime()
    {
        return $GLOBALS['wp_object_cache']->flush_runtime();
    }

    function wp_cache_flush_group($group)
    {
        return $GLOBALS['wp_object_cache']->flush_group($group);
    }

    function wp_cache_supports($feature)
    {
        $multiple = ['add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple'];
        return in_array($feature, [...$multiple, 'flush_runtime', 'flush_group'], true);
    }

    function wp_cache_close()
    {
        return true;
    }

    function wp_cache_add_global_groups($groups)
    {
        $GLOBALS['wp_object_cache']->add_global_groups($groups);
    }

    function wp_cache_add_non_persistent_groups($groups)
    {
        $GLOBALS['wp_object_cache']->add_non_persistent_groups($groups);
    }

    function wp_cache_switch_to_blog($blog_id)
    {
        $GLOBALS['wp_object_cache']->switch_to_blog($blog_id);
    }

    function wp_cache_reset()
    {
        _deprecated_function(__FUNCTION__, '3.5.0', 'wp_cache_switch_to_blog()');
        $GLOBALS['wp_object_cache']->reset();
    }
}
