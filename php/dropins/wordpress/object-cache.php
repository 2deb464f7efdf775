<?php

/**
 * Plugin Name: Larder object cache
 * Description: Keeps the object cache in memory that all PHP workers share, with larder.so.
 * Version: 0.1.0
 *
 * Copy this file to wp-content/object-cache.php. Larder's docs/dropins.md describes it.
 */

defined('ABSPATH') || exit;

/**
 * WordPress's object cache. It looks first for values that this request has used, and then for the
 * values of all requests in Larder\Cache. During a request a value does not change after the
 * request first read it, as in WordPress's own class. Methods that store return false if only this
 * request will see the value.
 *
 * **No stale fills.** A request may read the database, be preempted, and store the old value after
 * another request has changed and deleted it. A delete therefore leaves a mark. A request that
 * found no value may add one only if the key still has the same mark, or still has no mark.
 */
#[AllowDynamicProperties]
class Larder_Object_Cache
{
    private const MARK = "\0larder mark:";
    /** How long a mark of a delete exists: longer than any request that fills the cache. */
    private const MARK_SECONDS = 300;
    /** Bounds how long a list of absent options can be wrong after a rare race. */
    private const ABSENT_OPTIONS_SECONDS = 600;
    /** For numbers that convert() stores: their time to live is unknown, but they must expire. */
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
    /** The marks of keys without a value, as this request read them; null without a mark. */
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
            return 'without larder.path the command line does not share memory with the web server,'
                . ' whose cache may keep old values of the data that it changes';
        }
        return 'larder.so has no memory: see larder.memory and larder.path in php.ini';
    }

    /**
     * Returns the prefix of this site's keys. It has the same length for all sites, so that no
     * prefix is the beginning of another. It contains the database, even with a salt: a copy of a
     * site with the same wp-config.php does not read the site's values.
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

    /** Removes the values of this site with all blogs of its network, and of no other site. */
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
            'A cache key must be an integer or a non-blank string.',
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

    /**
     * Returns the key in Larder. The NUL ends the group, because a group may be the beginning of
     * another one and may contain any other character.
     */
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

    /** Reads a value into this request. Returns false if it is missing. */
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
     * Adds a value that this request has read elsewhere. Returns false if the key has a value or
     * was changed since this request read it, and null if the cache cannot store the value.
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

    /** Returns false if the value cannot be stored. The key is then removed. */
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
     * Options change in the database first. Concurrent requests that change options may store them
     * here in another order, or store an array of all options that lacks the other request's
     * change. So a change removes the item, and the next request reads the database.
     */
    private function change_option(string $name): bool
    {
        $this->forget($name);
        return true;
    }

    /**
     * The list of options that are not in the database grows with each one that a request looks up.
     * A request that adds an option removes it from the list. A longer list replaces only the list
     * that the request has read.
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

    /**
     * WordPress sets several options together after it has read them, and changes single options.
     */
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

    /** Adds to a number, and stops at 0. Other values count as 0. */
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

    /** Adds to an integer that all requests share. It keeps its time to live. */
    private function count_shared(string $name, int $by)
    {
        try {
            // If another request has just removed the number, this makes one that ends in a second.
            $sum = $this->shared->increment($name, $by, 1);
            if ($sum === false || $sum >= 0) {
                return $sum;
            }
            // The sum is below 0, so this request adds back what it subtracted in excess. It never
            // adds more than it subtracted, so requests can do this in any order.
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
        // Another request has changed the value since: it may have converted it.
        return is_int($sum) ? $this->count_shared($name, $by) : false;
    }
}

$larder_obstacle = Larder_Object_Cache::obstacle();

// Without the functions below, WordPress loads its own cache and keeps transients in the database.
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
