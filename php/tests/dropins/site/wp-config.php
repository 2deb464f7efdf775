<?php
// One copy of WordPress serves all sites. nginx names the site; the command line reads it from the
// environment. A file `constants` next to the site's content contains constants of a test.
$larder_site = $_SERVER['LARDER_SITE'] ?? getenv('LARDER_SITE');
$larder_content = __DIR__ . '/../sites/' . $larder_site;
foreach (json_decode(file_get_contents("$larder_content/constants"), true) as $name => $value) {
    define($name, $value);
}
define('DB_NAME', $larder_site);
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:' . dirname(__DIR__) . '/database.sock');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) {
    define("{$name}_KEY", "$name of a test");
    define("{$name}_SALT", "$name salt of a test");
}
define('WP_CONTENT_DIR', $larder_content);
define('WP_CONTENT_URL', "http://localhost/$larder_site/wp-content");
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('DISABLE_WP_CRON', true);
define('WP_DEBUG', true);
define('WP_DEBUG_DISPLAY', false);
define('WP_DEBUG_LOG', "$larder_content/debug.log");
$table_prefix = 'wp_';
defined('ABSPATH') || define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
