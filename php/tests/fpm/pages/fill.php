<?php
// Stores `n` items of `size` bytes, and reads the key `hot` in between. Prints how many stores
// failed and how often `hot` was missing, as JSON.
apcu_store('hot', 'still here');
[$failed, $missing] = [0, 0];
for ($i = 0; $i < $_GET['n']; ++$i) {
    apcu_store("cold$i", str_repeat(chr(97 + $i % 26), (int) $_GET['size'])) or ++$failed;
    if ($i % 10 === 0 && apcu_fetch('hot') !== 'still here') {
        ++$missing;
        apcu_store('hot', 'still here');
    }
}
echo json_encode(['failed' => $failed, 'missing' => $missing]);
