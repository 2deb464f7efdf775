<?php
// The number of queries, at the end of each page, for visitors and in the administration.
$larder_count = fn () => printf('<!-- queries: %d -->', get_num_queries());
add_action('wp_footer', $larder_count, PHP_INT_MAX);
add_action('admin_footer', $larder_count, PHP_INT_MAX);
