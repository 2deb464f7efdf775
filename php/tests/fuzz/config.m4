PHP_ARG_WITH([larder], [for the folder of Larder],
  [AS_HELP_STRING([--with-larder=FOLDER], [The folder with include/larder.h])], [no], [no])

PHP_ADD_INCLUDE([$PHP_LARDER/include])
PHP_NEW_EXTENSION([fuzz], [fuzz.c src/values/array.c src/values/key.c src/values/value.c], [yes],,
  [-std=gnu11 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter $FUZZ_CFLAGS])
PHP_ADD_BUILD_DIR([$ext_builddir/src/values])
PHP_ADD_INCLUDE([$ext_srcdir/src])
