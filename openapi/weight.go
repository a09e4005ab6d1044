package openapi

// weight counts the values of a schema with its references resolved, except recursive ones: the work of a program
// that expands them. It stops above maxWeight.
func (s *converter) weight() int {
	known := map[string]int{} // by pointer
	var of func(v any) int
	of = func(v any) int {
		n := 1
		add := func(more int) { n = min(n+more, maxWeight+1) }
		switch v := v.(type) {
		case map[string]any:
			for _, child := range v {
				add(of(child))
			}
		case []any:
			for _, child := range v {
				add(of(child))
			}
		case *reference:
			if _, ok := known[v.to]; !ok {
				known[v.to] = 1 // for references to itself
				target, _ := s.resolve(v.to)
				known[v.to] = of(target)
			}
			add(known[v.to])
		}
		return n
	}
	return of(s.root)
}
