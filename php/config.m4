dnl The last argument: phpize would ignore --disable.
PHP_ARG_ENABLE([larder-apcu], [for the APCu functions over Larder],
  [AS_HELP_STRING([--enable-larder-apcu], [Build larder_apcu.so, which registers as apcu])],
  [yes], [no])

PHP_ARG_ENABLE([larder-cache], [for the classes of Larder],
  [AS_HELP_STRING([--enable-larder-cache], [Build larder.so, which has Larder\\Cache])],
  [yes], [no])

PHP_ARG_WITH([larder], [for the folder of Larder],
  [AS_HELP_STRING([--with-larder=FOLDER],
    [The folder with include/larder.h and lib/liblarder.a])], [/usr/local], [no])

PHP_ARG_ENABLE([larder-apcu-debug], [for the debug build of larder_apcu],
  [AS_HELP_STRING([--enable-larder-apcu-debug], [Add apcu_inc_request_time, for tests])],
  [no], [no])

AC_MSG_CHECKING([for liblarder.a and larder.h])
if test ! -f "$PHP_LARDER/lib/liblarder.a" || test ! -f "$PHP_LARDER/include/larder.h"; then
  AC_MSG_ERROR([not found in $PHP_LARDER: name their folder with --with-larder=FOLDER])
fi
AC_MSG_RESULT([$PHP_LARDER])

PHP_ADD_INCLUDE([$PHP_LARDER/include])
PHP_ADD_INCLUDE([PHP_EXT_SRCDIR([larder])/src])
dnl The library's symbols are not exported, because another extension may link a different copy.
AS_CASE([$host_os],
  [darwin*], [
    LDFLAGS="$LDFLAGS -Wl,-dead_strip"
    LARDER_LIBS="-lpthread -lm"
  ], [
    LDFLAGS="$LDFLAGS -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-z,relro,-z,now"
    LARDER_LIBS="-lpthread -ldl -lm -lgcc_s"
  ])

LARDER_CFLAGS="-std=gnu11 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter"
LARDER_CFLAGS="$LARDER_CFLAGS -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1"

dnl Both modules link these objects, because phpize's Makefile can have only one rule per object.
PHP_ADD_SOURCES_X(PHP_EXT_DIR([larder]), m4_normalize([
    src/values/array.c
    src/values/clear.c
    src/values/key.c
    src/values/lease.c
    src/values/names.c
    src/values/native.c
    src/values/value.c
    src/values/walk.c
  ]), [$LARDER_CFLAGS -DZEND_COMPILE_DL_EXT=1], [larder_values], [yes])
PHP_ADD_BUILD_DIR([PHP_EXT_BUILDDIR([larder])/src/values])

if test "$PHP_LARDER_APCU" != "no"; then
  if test "$PHP_LARDER_APCU_DEBUG" != "no"; then
    AC_DEFINE([APC_DEBUG], [1], [True in the debug build])
  fi

  LARDER_APCU_SHARED_LIBADD="$PHP_LARDER/lib/liblarder.a $LARDER_LIBS"
  PHP_SUBST([LARDER_APCU_SHARED_LIBADD])
  PHP_NEW_EXTENSION([larder_apcu], m4_normalize([
      src/apcu/counters.c
      src/apcu/entry.c
      src/apcu/failures.c
      src/apcu/functions.c
      src/apcu/info.c
      src/apcu/module.c
      src/apcu/page.c
      src/apcu/preload.c
      src/apcu/read.c
      src/apcu/serializer.c
      src/apcu/settings.c
      src/apcu/walk/iterator.c
      src/apcu/walk/search.c
      src/apcu/walk/walk.c
    ]), [yes],, [$LARDER_CFLAGS])
  shared_objects_larder_apcu="$shared_objects_larder_apcu $larder_values"
  PHP_ADD_BUILD_DIR([$ext_builddir/src/apcu/walk])
  PHP_ADD_EXTENSION_DEP(larder_apcu, hash)
  PHP_ADD_EXTENSION_DEP(larder_apcu, pcre)
fi

if test "$PHP_LARDER_CACHE" != "no"; then
  LARDER_SHARED_LIBADD="$PHP_LARDER/lib/liblarder.a $LARDER_LIBS"
  PHP_SUBST([LARDER_SHARED_LIBADD])
  PHP_NEW_EXTENSION([larder], m4_normalize([
      src/larder/cache.c
      src/larder/change.c
      src/larder/compute.c
      src/larder/failures.c
      src/larder/igbinary.c
      src/larder/item.c
      src/larder/many.c
      src/larder/module.c
      src/larder/serializer.c
      src/larder/session.c
      src/larder/place/options.c
      src/larder/place/place.c
      src/larder/place/region.c
      src/larder/place/settings.c
      src/larder/remote/change.c
      src/larder/remote/client.c
      src/larder/remote/many.c
      src/larder/remote/packed.c
      src/larder/remote/values.c
      src/larder/walk/items.c
      src/larder/walk/walk.c
    ]), [yes],, [$LARDER_CFLAGS])
  shared_objects_larder="$shared_objects_larder $larder_values"
  PHP_ADD_BUILD_DIR([$ext_builddir/src/larder/place])
  PHP_ADD_BUILD_DIR([$ext_builddir/src/larder/remote])
  PHP_ADD_BUILD_DIR([$ext_builddir/src/larder/walk])
  PHP_ADD_EXTENSION_DEP(larder, hash)
fi
