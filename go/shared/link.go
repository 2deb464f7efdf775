//go:build linux && cgo && !larder_system

package shared

/*
#cgo CFLAGS: -I${SRCDIR}/lib
#cgo amd64,!musl LDFLAGS: ${SRCDIR}/lib/linux_amd64/liblarder.a
#cgo arm64,!musl LDFLAGS: ${SRCDIR}/lib/linux_arm64/liblarder.a
#cgo amd64,musl LDFLAGS: ${SRCDIR}/lib/linux_amd64_musl/liblarder.a
#cgo arm64,musl LDFLAGS: ${SRCDIR}/lib/linux_arm64_musl/liblarder.a
#cgo LDFLAGS: -lm -ldl -lpthread
*/
import "C"

// Vendoring copies the folders of imported packages, with all files in them.
import (
	_ "larder.example/larder/shared/lib"
	_ "larder.example/larder/shared/lib/linux_amd64"
	_ "larder.example/larder/shared/lib/linux_amd64_musl"
	_ "larder.example/larder/shared/lib/linux_arm64"
	_ "larder.example/larder/shared/lib/linux_arm64_musl"
)
