--TEST--
A file that is replaced while a process checks it is not refused
--EXTENSIONS--
pcntl
--FILE--
<?php
require __DIR__ . '/run.inc';
$folder = new_folder();
mkdir("$folder/files", 0755);
for ($at = 0; $at < 10; ++$at) {
    symlink('files', "$folder/$at");
}

// A process that makes a new cache also replaces the file.
$replacing = pcntl_fork();
if ($replacing === 0) {
    umask(0177);
    while (true) {
        touch("$folder/files/new");
        rename("$folder/files/new", "$folder/files/region");
    }
}
set_error_handler(fn (int $number, string $message) => print("$message\n"));
while (!file_exists("$folder/files/region")) {
    usleep(1000);
    clearstatcache();
}
// An open waits for a process that appears to be making the file.
for ($until = microtime(true) + 3; microtime(true) < $until;) {
    if (pcntl_fork() === 0) {
        for ($at = 0; $at < 10; ++$at) {
            Larder\Cache::open("$folder/$at/region", ['memory' => '1M']);
        }
        exit(0);
    }
    pcntl_wait($status);
}
posix_kill($replacing, 9);
echo "done\n";
?>
--CLEAN--
<?php require __DIR__ . '/run.inc'; remove_folders(); ?>
--EXPECT--
done
