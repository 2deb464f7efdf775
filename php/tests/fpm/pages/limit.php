<?php
// Reaches the memory limit in the middle of a fetch. The page fails, and its worker survives.
ini_set('memory_limit', '8M');
apcu_store('wide', str_repeat('w', 3 << 20));
$kept = [];
while (true) {
    $kept[] = apcu_fetch('wide');
}
