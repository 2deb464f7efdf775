<?php
// Makes a site a network, as the page Tools → Network Setup does. With `blog`, adds a blog.
require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
require_once ABSPATH . 'wp-admin/includes/network.php';
if (isset($_GET['blog'])) {
    $path = "/$larder_site/$_GET[blog]/";
    $made = wpmu_create_blog('localhost', $path, "The blog $_GET[blog]", 1, ['public' => 1]);
    echo json_encode($made);
} else {
    foreach ($wpdb->tables('ms_global') as $table => $prefixed) {
        $wpdb->$table = $prefixed;
    }
    install_network();
    $is_made = populate_network(1, 'localhost', 'admin@example.org', 'Network', "/$larder_site/");
    echo json_encode($is_made);
}
