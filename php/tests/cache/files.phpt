--TEST--
A file is used only if other users cannot have made it
--SKIPIF--
<?php if (posix_geteuid() !== 0) die('skip needs root'); ?>
--FILE--
<?php
require __DIR__ . '/run.inc';
$folder = new_folder();
$path = "$folder/region";

/** Prints the result of a process that opens the file. */
function attempt(string $what, string $path, array $options = []): void
{
    $options = var_export($options, true);
    echo "$what: ", run([], '$cache = Larder\Cache::open(' . var_export($path, true) . ", $options);
        echo json_encode(\$cache->get('a')), ' '; \$cache->set('a', \$cache->get('a') + 1); \$cache->get('a');"), "\n";
}

attempt('new', $path);
attempt('second', $path);
printf("%o %d\n", fileperms($path), fileowner($path));
chmod($path, 0644);
attempt('permissions', $path);
attempt('permissions given', $path, ['permissions' => 0644]);
chmod($path, 0600);
chown($path, 33);
attempt('planted', $path);
chown($path, 0);
link($path, "$folder/link");
attempt('two names', $path);
unlink("$folder/link");
symlink($path, "$folder/link");
attempt('symbolic link', "$folder/link");
posix_mkfifo("$folder/pipe", 0600);
attempt('pipe', "$folder/pipe");
attempt('directory', $folder);
mkdir("$folder/other");
chmod("$folder/other", 0777);
attempt('open directory', "$folder/other/region");
chmod("$folder/other", 01777);
attempt('sticky directory', "$folder/other/region");
chmod("$folder/other", 0755);
chown("$folder/other", 33);
attempt('directory of another user', "$folder/other/region");
attempt('no directory', "$folder/missing/region");
file_put_contents("$folder/text", 'the notes of a person');
chmod("$folder/text", 0600);
attempt('not a cache', "$folder/text");
echo file_get_contents("$folder/text"), "\n";
// A region of another layout that a process uses. Later an empty one replaces it.
$code = "Larder\\Cache::open('$folder/layout')->set('a', 7); echo 'open'; sleep(60);";
$process = proc_open([PHP_BINARY, '-n', '-d', 'extension=' . getenv('LARDER_SO'), '-r', $code], [1 => ['pipe', 'w']], $pipes);
fread($pipes[1], 4);
$file = fopen("$folder/layout", 'r+');
fseek($file, 8);
fwrite($file, str_repeat("\xEE", 56));
fclose($file);
attempt('another layout in use', "$folder/layout");
proc_terminate($process, 9);
proc_close($process);
attempt('another layout', "$folder/layout");
attempt('another layout, replaced', "$folder/layout");
attempt('as before', $path);
?>
--CLEAN--
<?php require __DIR__ . '/run.inc'; remove_folders(); ?>
--EXPECTF--
new: null 
second: 1 
100600 0
permissions: Warning: Larder\Cache::open(): The cache cannot be used, so all keys miss: %s/region has permissions 0644, expected 0600 in Command line code on line 1
null 
permissions given: 2 
planted: Warning: Larder\Cache::open(): The cache cannot be used, so all keys miss: %s/region belongs to user 33, not to user 0: see larder.owner in Command line code on line 1
null 
two names: Warning: Larder\Cache::open(): The cache cannot be used, so all keys miss: %s/region has several hard links in Command line code on line 1
null 
symbolic link: Warning: Larder\Cache::open(): The cache cannot be used, so all keys miss: %s/link is a symbolic link in Command line code on line 1
null 
pipe: Warning: Larder\Cache::open(): The cache cannot be used, so all keys miss: %s/pipe is not a regular file in Command line code on line 1
null 
directory: Warning: Larder\Cache::open(): The cache cannot be used, so all keys miss: %s: Is a directory in Command line code on line 1
null 
open directory: Warning: Larder\Cache::open(): The cache cannot be used, so all keys miss: other users can write to the directory %s/other: chmod 755, or 1777 in Command line code on line 1
null 
sticky directory: null 
directory of another user: Warning: Larder\Cache::open(): The cache cannot be used, so all keys miss: the directory %s/other belongs to another user (33) in Command line code on line 1
null 
no directory: Warning: Larder\Cache::open(): The cache cannot be used, so all keys miss: %s/missing: No such file or directory in Command line code on line 1
null 
not a cache: Warning: Larder\Cache::open(): The cache cannot be used, so all keys miss: cannot open a shared cache: cannot use %s in Command line code on line 1
null 
the notes of a person
another layout in use: Warning: Larder\Cache::open(): The cache cannot be used, so all keys miss: cannot open a shared cache: %s/layout is in use by %s in Command line code on line 1
null 
another layout: null 
another layout, replaced: 1 
as before: 3 
