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
  AC_MSG_ERROR([not below $PHP_LARDER: give their folder by --with-larder=FOLDER])
fi
AC_MSG_RESULT([$PHP_LARDER])

PHP_ADD_INCLUDE([$PHP_LARDER/include])
dnl The symbols of the library stay inside: another extension may link one of its own.
LDFLAGS="$LDFLAGS -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-z,relro,-z,now"

if test "$PHP_LARDER_APCU" != "no"; then
  if test "$PHP_LARDER_APCU_DEBUG" != "no"; then
    AC_DEFINE([APC_DEBUG], [1], [True in the debug build])
  fi

  LARDER_APCU_SHARED_LIBADD="$PHP_LARDER/lib/liblarder.a -lpthread -ldl -lm -lgcc_s"
  PHP_SUBST([LARDER_APCU_SHARED_LIBADD])
  PHP_NEW_EXTENSION([larder_apcu], m4_normalize([
      src/counters.c
      src/entry.c
      src/failures.c
      src/functions.c
      src/info.c
      src/module.c
      src/page.c
      src/preload.c
      src/settings.c
      src/values/array.c
      src/values/clear.c
      src/values/key.c
      src/values/lease.c
      src/values/names.c
      src/values/native.c
      src/values/read.c
      src/values/serializer.c
      src/values/value.c
      src/values/walk.c
      src/walk/iterator.c
      src/walk/search.c
      src/walk/walk.c
    ]), [yes],,
    m4_normalize([-std=gnu11 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter
      -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1]))
  PHP_ADD_BUILD_DIR([$ext_builddir/src/values])
  PHP_ADD_BUILD_DIR([$ext_builddir/src/walk])
  PHP_ADD_INCLUDE([$ext_srcdir/src])
  PHP_ADD_EXTENSION_DEP(larder_apcu, hash)
  PHP_ADD_EXTENSION_DEP(larder_apcu, pcre)
fi

if test "$PHP_LARDER_CACHE" != "no"; then
  LARDER_SHARED_LIBADD="$PHP_LARDER/lib/liblarder.a -lpthread -ldl -lm -lgcc_s"
  PHP_SUBST([LARDER_SHARED_LIBADD])
  PHP_NEW_EXTENSION([larder], m4_normalize([
      src/cache/cache.c
      src/cache/change.c
      src/cache/compute.c
      src/cache/failures.c
      src/cache/igbinary.c
      src/cache/item.c
      src/cache/many.c
      src/cache/module.c
      src/cache/serializer.c
      src/cache/session.c
      src/cache/place/options.c
      src/cache/place/place.c
      src/cache/place/region.c
      src/cache/place/settings.c
      src/cache/remote/change.c
      src/cache/remote/client.c
      src/cache/remote/many.c
      src/cache/remote/packed.c
      src/cache/remote/values.c
      src/cache/shared/array.c
      src/cache/shared/clear.c
      src/cache/shared/key.c
      src/cache/shared/lease.c
      src/cache/shared/names.c
      src/cache/shared/native.c
      src/cache/shared/value.c
      src/cache/shared/walk.c
      src/cache/walk/items.c
      src/cache/walk/walk.c
    ]), [yes],,
    m4_normalize([-std=gnu11 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter
      -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1]))
  PHP_ADD_BUILD_DIR([$ext_builddir/src/cache/place])
  PHP_ADD_BUILD_DIR([$ext_builddir/src/cache/remote])
  PHP_ADD_BUILD_DIR([$ext_builddir/src/cache/shared])
  PHP_ADD_BUILD_DIR([$ext_builddir/src/cache/walk])
  PHP_ADD_INCLUDE([$ext_srcdir/src])
  PHP_ADD_EXTENSION_DEP(larder, hash)
fi
