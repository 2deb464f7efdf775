<?php
// Calls one function: `f` with the JSON arguments `a`. Prints the pid and the result as JSON, after
// a pause of `us` microseconds, so that other workers answer the next requests.
$result = ($_GET['f'])(...json_decode($_GET['a'] ?? '[]', true));
usleep((int) ($_GET['us'] ?? 0));
echo json_encode([getmypid(), $result]);
