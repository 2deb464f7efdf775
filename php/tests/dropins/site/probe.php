<?php
// Calls functions in a request of WordPress, and prints their results: `calls` is a list of names
// with arguments.
// WordPress escapes $_POST.
$calls = json_decode($_POST['calls'], true);
require __DIR__ . '/wp-load.php';
$results = [];
foreach ($calls as [$function, $arguments]) {
    $results[] = $function(...$arguments);
}
echo json_encode($results);
