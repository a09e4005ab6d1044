package jsonpointer_test

import (
	"fmt"

	"github.com/capgate/capgate/internal/lib/jsonpointer"
)

func ExampleEscape() {
	fmt.Println("/" + jsonpointer.Escape("a/b~c~1"))
	// Output: /a~1b~0c~01
}
