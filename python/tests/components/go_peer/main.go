// Command peer uses a cache in a file that processes in other languages use at the same time.
//
//	peer FILE get KEY            prints the value, or fails
//	peer FILE set KEY VALUE
//	peer FILE incr KEY TIMES     adds 1 that many times, and prints the result
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"

	"larder.example/larder"
	"larder.example/larder/shared"
)

func main() {
	log.SetFlags(0)
	file, command, key := os.Args[1], os.Args[2], os.Args[3]
	cache, err := shared.Open(file, shared.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	switch command {
	case "get":
		value, ok := cache.Get(key)
		if !ok {
			log.Fatalf("%s does not exist", key)
		}
		os.Stdout.Write(value)
	case "set":
		if err := cache.Set(key, []byte(os.Args[4]), larder.Forever); err != nil {
			log.Fatal(err)
		}
	case "incr":
		times, err := strconv.Atoi(os.Args[4])
		if err != nil {
			log.Fatal(err)
		}
		var count uint64
		for range times {
			if count, err = cache.Incr(key, 1); err != nil {
				log.Fatal(err)
			}
		}
		fmt.Println(count)
	default:
		log.Fatalf("unknown command %s", command)
	}
}
